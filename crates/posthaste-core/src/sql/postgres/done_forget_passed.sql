-- Whatever the place has passed meanwhile.
DELETE FROM {prefix}parked p
USING {prefix}lanes l JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
WHERE p.lane = $1 AND p.state = 'done' AND l.lane = $1 AND l.shard = 0
  AND NOT EXISTS (SELECT 1 FROM {prefix}events e
                  WHERE e.seq = p.seq AND NOT pg_visible_in_snapshot(e.xid, a.snap)
                    AND NOT (b.id IS NOT NULL AND e.seq <= l.position AND pg_visible_in_snapshot(e.xid, b.snap)))
