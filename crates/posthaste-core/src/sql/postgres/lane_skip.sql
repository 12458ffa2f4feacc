-- Beside what its tick sees, the lane has passed what the tick $2 sees up to the number $3: never less than
-- before, as ticks see more and more. The epoch ends whatever lease is out.
UPDATE {prefix}lanes
SET tick_b = $2, position = $3, epoch = epoch + 1, owner_name = NULL, owner_run = NULL, lease_until = 'epoch', stumbles = 0,
    reason = coalesce($4, reason), updated_at = clock_timestamp()
WHERE lane = $1 AND shard = 0 AND (tick_b IS NULL OR position <= $3)
