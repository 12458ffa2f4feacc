UPDATE {prefix}lanes SET reason = ?3 WHERE lane = ?1 AND shard = ?2
