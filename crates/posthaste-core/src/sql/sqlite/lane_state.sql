-- Half a lane is not brought back.
UPDATE {prefix}lanes SET state = ?3, reason = NULL, updated_at = ?4
WHERE lane = ?1 AND shard = ?2 AND NOT (state = 'error' AND coalesce(reason, '') LIKE 'being removed;%')
