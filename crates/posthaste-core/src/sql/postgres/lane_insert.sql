INSERT INTO {prefix}lanes (lane, shard, epoch, tick_a, tick_b, position, spec)
SELECT $1, $2, epoch_floor, $3, $4, $5, $6 FROM {prefix}meta WHERE id = 1
ON CONFLICT DO NOTHING
