-- The keys of a lane behind which something waits, for promote.sql at an acquisition.
SELECT DISTINCT key FROM {prefix}parked
WHERE lane = $1 AND shard = 0 AND key IS NOT NULL AND NOT replay AND state IN ('retrying', 'behind', 'leased') AND state = 'behind'
