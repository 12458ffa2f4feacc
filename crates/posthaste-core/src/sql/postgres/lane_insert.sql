-- Only where its ticks still are; retention_lock.sql keeps them there.
INSERT INTO {prefix}lanes (lane, shard, epoch, tick_a, tick_b, position, spec)
SELECT $1, 0, epoch_floor, $2, $3, $4, $5 FROM {prefix}meta
WHERE id = 1 AND (SELECT count(*) FROM {prefix}ticks WHERE id IN ($2, $3)) = 1 + ($3 IS NOT NULL)::int
ON CONFLICT DO NOTHING
