INSERT INTO {prefix}lanes (lane, shard, epoch, position, spec, created_at, updated_at) VALUES (?1, 0, ?2, ?3, ?4, ?5, ?5)
