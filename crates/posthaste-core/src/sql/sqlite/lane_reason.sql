UPDATE {prefix}lanes SET reason = ?2 WHERE lane = ?1 AND shard = 0
