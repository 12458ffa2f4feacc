UPDATE {prefix}lanes SET state = $3, reason = NULL, updated_at = clock_timestamp() WHERE lane = $1 AND shard = $2
