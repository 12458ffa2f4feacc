SELECT owner_run, lease_until, epoch, position, stumbles, state, waiting, dead, wanted_by, wanted_until, spec
FROM {prefix}lanes WHERE lane = ?1 AND shard = 0
