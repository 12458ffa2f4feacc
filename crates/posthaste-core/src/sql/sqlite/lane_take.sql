UPDATE {prefix}lanes
SET owner_name = ?2, owner_run = ?3, epoch = epoch + 1, lease_until = ?4, stumbles = ?7, spec = ?5, updated_at = ?6,
    wanted_until = CASE WHEN wanted_by = ?3 THEN 0 ELSE wanted_until END
WHERE lane = ?1 AND shard = 0
