SELECT state, reason, wanted_until > ?4 AND wanted_by <> ?3
FROM {prefix}lanes WHERE lane = ?1 AND shard = 0 AND epoch = ?2 AND owner_run = ?3
