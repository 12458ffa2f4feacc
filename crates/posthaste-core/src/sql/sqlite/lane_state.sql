UPDATE {prefix}lanes SET state = ?3, reason = ?4, updated_at = ?5 WHERE lane = ?1 AND shard = ?2 AND state <> ?3
