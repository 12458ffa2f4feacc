-- Removes events that every lane has passed and nothing parks.
DELETE FROM {prefix}events e
WHERE e.seq = ANY ($1)
  AND NOT EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.seq = e.seq)
  AND EXISTS (SELECT 1 FROM {prefix}lanes)
  AND NOT EXISTS (SELECT 1 FROM {prefix}lanes l JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
                  WHERE NOT (pg_visible_in_snapshot(e.xid, a.snap)
                             OR (b.id IS NOT NULL AND e.seq <= l.position AND pg_visible_in_snapshot(e.xid, b.snap))))
