-- What a lane has not passed and not parked of what the tick $3 sees up to the number $4, by topic.
SELECT coalesce(e.topic, e.event_type), count(*)
FROM {prefix}lanes l JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
JOIN {prefix}ticks t ON t.id = $3 JOIN {prefix}events e ON e.seq <= $4 AND pg_visible_in_snapshot(e.xid, t.snap)
WHERE l.lane = $1 AND l.shard = $2 AND (l.tick_b IS NULL OR l.position <= $4)
  AND NOT pg_visible_in_snapshot(e.xid, a.snap)
  AND NOT (b.id IS NOT NULL AND e.seq <= l.position AND pg_visible_in_snapshot(e.xid, b.snap))
  AND NOT EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.lane = l.lane AND p.seq = e.seq)
GROUP BY 1
