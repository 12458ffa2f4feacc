-- Removes, of a stretch of the log, the first $4 that are old, that nothing parks and that every lane has passed: by what its ticks see,
-- as a number alone says nothing about what commits late. Without any lane nothing goes.
DELETE FROM {prefix}events WHERE seq = ANY (ARRAY(
    SELECT e.seq FROM {prefix}events e
    WHERE e.seq > $1 AND e.seq <= $2 AND e.created_at < $3
      AND NOT EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.seq = e.seq)
      AND EXISTS (SELECT 1 FROM {prefix}lanes)
      AND NOT EXISTS (SELECT 1 FROM {prefix}lanes l JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
                      WHERE NOT (pg_visible_in_snapshot(e.xid, a.snap)
                                 OR (b.id IS NOT NULL AND e.seq <= l.position AND pg_visible_in_snapshot(e.xid, b.snap))))
    ORDER BY e.seq LIMIT $4))
RETURNING seq
