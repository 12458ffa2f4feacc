-- Of what a lane has dead or discarded for long enough (?2), the next ?5 after a place (?3, ?4), and whether their events may go: every lane
-- has passed them, and whatever parks them is over for as long. What stays is looked at once, and costs no more than what goes.
SELECT looked_at.seq, looked_at.dead_at,
       looked_at.seq <= (SELECT min(position) FROM {prefix}lanes)
       AND NOT EXISTS (SELECT 1 FROM {prefix}parked o INDEXED BY {prefix}parked_seq WHERE o.seq = looked_at.seq AND coalesce(o.dead_at, ?2) >= ?2)
FROM (SELECT seq, dead_at FROM {prefix}parked INDEXED BY {prefix}parked_over
      WHERE lane = ?1 AND dead_at IS NOT NULL AND dead_at < ?2 AND (dead_at, seq) > (?3, ?4)
      ORDER BY dead_at, seq LIMIT ?5) looked_at
