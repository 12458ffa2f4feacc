-- The epoch ends whatever lease is out: its relay reads its place anew.
UPDATE {prefix}lanes
SET position = ?2, epoch = epoch + 1, owner_name = NULL, owner_run = NULL, lease_until = 0, stumbles = 0, updated_at = ?3
WHERE lane = ?1 AND shard = 0
