SELECT state, reason, wanted_until > ?5 AND wanted_by <> ?4
FROM {prefix}lanes WHERE lane = ?1 AND shard = ?2 AND epoch = ?3 AND owner_run = ?4
