-- All lanes that park one of these events: settles and commands wait. In one order, so that nobody waits for each other.
SELECT clock_timestamp() FROM {prefix}lanes
WHERE lane IN (SELECT lane FROM {prefix}parked WHERE seq = ANY ($1)) ORDER BY lane, shard FOR UPDATE
