SELECT tick_a, tick_b, position, epoch, owner_run FROM {prefix}lanes WHERE lane = $1 AND shard = $2
