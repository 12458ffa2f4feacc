-- Ticks that no lane stands at: those below all lanes go, of the others one a minute stays. Young ones stay for lanes that
-- are being made and for windows that are being read; tick 0 is the beginning, and the newest is what the next one follows.
DELETE FROM {prefix}ticks WHERE id IN (
    SELECT t.id FROM {prefix}ticks t
    WHERE t.id > 0 AND t.id < (SELECT max(id) FROM {prefix}ticks) AND t.at < clock_timestamp() - interval '1 hour'
      AND NOT EXISTS (SELECT 1 FROM {prefix}lanes l WHERE t.id IN (l.tick_a, l.tick_b))
      AND (t.id < (SELECT min(tick_a) FROM {prefix}lanes WHERE tick_a > 0)
           OR t.id NOT IN (SELECT max(id) FROM {prefix}ticks GROUP BY date_trunc('minute', at)))
    ORDER BY t.id LIMIT $1)
