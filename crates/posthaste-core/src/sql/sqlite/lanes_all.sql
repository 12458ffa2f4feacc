-- The first ?2 lanes after the name ?1 with their totals; '' and -1: all of them.
SELECT lane, state, reason, owner_name, lease_until, epoch, position, accepted, delivered, waiting, dead, discarded,
       replayed, spec,
       (SELECT created_at FROM {prefix}events e WHERE e.seq > l.position ORDER BY e.seq LIMIT 1)
FROM {prefix}lanes l WHERE shard = 0 AND lane > ?1 ORDER BY lane LIMIT ?2
