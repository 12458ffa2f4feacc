SELECT spec FROM {prefix}lanes WHERE lane = $1 AND shard = 0
