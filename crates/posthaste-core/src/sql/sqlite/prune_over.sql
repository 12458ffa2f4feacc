-- Dead and discarded long enough. What the place has not passed stays: without its row it would be read again.
SELECT p.seq, p.state, p.key FROM {prefix}parked p INDEXED BY {prefix}parked_over
WHERE p.lane = ?1 AND p.dead_at IS NOT NULL AND p.dead_at < ?2
  AND p.seq <= (SELECT position FROM {prefix}lanes l WHERE l.lane = ?1 AND l.shard = p.shard)
ORDER BY p.dead_at LIMIT ?3
