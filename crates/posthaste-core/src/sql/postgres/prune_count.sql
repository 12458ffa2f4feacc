-- How many events of a stretch retention would remove. $3: taken in before this; $4: dead or discarded before this.
SELECT count(*) FROM {prefix}events e
WHERE e.seq > $1 AND e.seq <= $2
  AND (e.created_at < $3 OR EXISTS (SELECT 1 FROM {prefix}parked o WHERE o.seq = e.seq AND o.dead_at < $4))
  AND NOT EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.seq = e.seq AND coalesce(p.dead_at, $4) >= $4)
  AND EXISTS (SELECT 1 FROM {prefix}lanes)
  AND NOT EXISTS (SELECT 1 FROM {prefix}lanes l JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
                  WHERE NOT (pg_visible_in_snapshot(e.xid, a.snap)
                             OR (b.id IS NOT NULL AND e.seq <= l.position AND pg_visible_in_snapshot(e.xid, b.snap))))
