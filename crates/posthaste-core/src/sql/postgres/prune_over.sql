-- Of what a lane has dead or discarded for long enough ($2), the next $5 after a place ($3, $4), and whether their events may go: every lane
-- has passed them, and whatever parks them is over for as long. What stays is looked at once, and costs no more than what goes.
SELECT p.seq, p.dead_at,
       NOT EXISTS (SELECT 1 FROM {prefix}parked o WHERE o.seq = p.seq AND coalesce(o.dead_at, $2) >= $2)
       AND NOT EXISTS (SELECT 1 FROM {prefix}events e, {prefix}lanes l
                       JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
                       WHERE e.seq = p.seq
                         AND NOT (pg_visible_in_snapshot(e.xid, a.snap)
                                  OR (b.id IS NOT NULL AND e.seq <= l.position AND pg_visible_in_snapshot(e.xid, b.snap))))
FROM (SELECT seq, dead_at FROM {prefix}parked
      WHERE lane = $1 AND dead_at IS NOT NULL AND dead_at < $2 AND (dead_at, seq) > ($3, $4)
      ORDER BY dead_at, seq LIMIT $5) p
ORDER BY p.dead_at, p.seq
