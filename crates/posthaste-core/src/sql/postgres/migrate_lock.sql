-- Of the transaction, not of the session: behind a pooler in transaction mode a session's lock stays with a stranger.
SELECT pg_advisory_xact_lock(hashtextextended('{prefix}migrate', 0))
