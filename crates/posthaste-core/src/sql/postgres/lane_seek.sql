-- The epoch ends whatever lease is out: its relay reads its place anew.
UPDATE {prefix}lanes
SET tick_a = $2, tick_b = $3, position = $4, epoch = epoch + 1, owner_name = NULL, owner_run = NULL, lease_until = 'epoch',
    stumbles = 0, updated_at = clock_timestamp()
WHERE lane = $1 AND shard = 0
