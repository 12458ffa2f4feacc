DELETE FROM {prefix}lanes WHERE lane = ?1 AND shard = 0 RETURNING epoch
