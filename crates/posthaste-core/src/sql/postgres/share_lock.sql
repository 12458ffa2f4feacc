-- Of the transaction, as migrate_lock.sql.
SELECT pg_advisory_xact_lock(hashtextextended('{prefix}share', 0))
