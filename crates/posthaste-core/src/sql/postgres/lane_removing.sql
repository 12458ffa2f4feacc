-- First step of a removal, which may take many: nobody drives the lane from here on, also if we end in the middle.
UPDATE {prefix}lanes
SET state = 'error', reason = 'being removed; repeat the removal to finish it', epoch = epoch + 1,
    owner_name = NULL, owner_run = NULL, lease_until = 'epoch', updated_at = clock_timestamp()
WHERE lane = $1 AND shard = 0
