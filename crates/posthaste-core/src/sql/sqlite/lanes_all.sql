SELECT lane, state, reason, owner_name, lease_until, epoch, position, accepted, delivered, waiting, dead, discarded,
       replayed, spec,
       (SELECT created_at FROM {prefix}events e WHERE e.seq > l.position ORDER BY e.seq LIMIT 1)
FROM {prefix}lanes l WHERE shard = 0 ORDER BY lane
