-- First step of a removal, which may take many: nobody drives the lane from here on, also if we end in the middle.
UPDATE {prefix}lanes
SET state = 'error', reason = 'being removed; repeat the removal to finish it', epoch = epoch + 1,
    owner_name = NULL, owner_run = NULL, lease_until = 0, updated_at = ?2
WHERE lane = ?1 AND shard = 0
