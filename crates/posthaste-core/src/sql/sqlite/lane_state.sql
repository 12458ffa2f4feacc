-- Half a lane is not brought back.
UPDATE {prefix}lanes SET state = ?2, reason = NULL, updated_at = ?3
WHERE lane = ?1 AND shard = 0 AND NOT (state = 'error' AND coalesce(reason, '') LIKE 'being removed;%')
