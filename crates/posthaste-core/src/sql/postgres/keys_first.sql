-- For each key the first event that holds it: what comes after it in the log waits. $3: the lane blocks on
-- dead events.
SELECT key, min(seq) FROM (
    SELECT key, seq FROM {prefix}parked
    WHERE lane = $1 AND shard = 0 AND key = ANY ($2) AND key IS NOT NULL AND NOT replay AND state IN ('retrying', 'behind', 'leased')
    UNION ALL
    SELECT key, seq FROM {prefix}parked
    WHERE $3 AND lane = $1 AND shard = 0 AND key = ANY ($2) AND key IS NOT NULL AND NOT replay AND state = 'dead') held
GROUP BY key
