-- How many events come again, or come at all: those that not every lane has passed, as rebase_events.sql sees it.
SELECT count(*) FROM {prefix}events e
WHERE NOT (EXISTS (SELECT 1 FROM {prefix}lanes)
  AND NOT EXISTS (SELECT 1 FROM {prefix}lanes l JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
                  WHERE NOT ((e.seq <= a.last_seq AND pg_visible_in_snapshot(e.xid, a.snap))
                             OR (b.id IS NOT NULL AND e.seq <= l.position AND e.seq <= b.last_seq AND pg_visible_in_snapshot(e.xid, b.snap)))))
