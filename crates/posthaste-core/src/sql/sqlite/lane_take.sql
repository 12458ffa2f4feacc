UPDATE {prefix}lanes
SET owner_name = ?3, owner_run = ?4, epoch = epoch + 1, lease_until = ?5, stumbles = ?8, spec = ?6, updated_at = ?7,
    wanted_until = CASE WHEN wanted_by = ?4 THEN 0 ELSE wanted_until END
WHERE lane = ?1 AND shard = ?2
