-- Beside what its tick sees, the lane has passed what the tick $3 sees up to the number $4: never less than before, as ticks
-- see more and more. The epoch ends whatever lease is out.
UPDATE {prefix}lanes
SET tick_b = $3, position = $4, epoch = epoch + 1, owner_name = NULL, owner_run = NULL, lease_until = 'epoch', stumbles = 0,
    reason = coalesce($5, reason), updated_at = clock_timestamp()
WHERE lane = $1 AND shard = $2 AND (tick_b IS NULL OR position <= $4)
