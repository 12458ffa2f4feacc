-- Dead and discarded long enough. What the lane has not passed stays: without its row it would be read again.
SELECT p.seq, p.state, p.key
FROM {prefix}parked p
JOIN {prefix}lanes l ON l.lane = p.lane AND l.shard = p.shard
JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
LEFT JOIN {prefix}events e ON e.seq = p.seq
WHERE p.lane = $1 AND p.dead_at IS NOT NULL AND p.dead_at < $2
  AND (e.seq IS NULL OR pg_visible_in_snapshot(e.xid, a.snap)
       OR (b.id IS NOT NULL AND e.seq <= l.position AND pg_visible_in_snapshot(e.xid, b.snap)))
ORDER BY p.dead_at LIMIT $3
