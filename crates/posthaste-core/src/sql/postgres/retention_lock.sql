-- Whoever removes events is alone ($1 false: whoever comes to need them, of which there may be many): a replay, a new lane or
-- a seek beside it would count on events that are going. Always before the lock of a lane's row.
SELECT CASE WHEN $1 THEN pg_advisory_xact_lock(hashtextextended('{prefix}retention', 0))
            ELSE pg_advisory_xact_lock_shared(hashtextextended('{prefix}retention', 0)) END
