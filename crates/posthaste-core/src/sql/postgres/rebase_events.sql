-- Gives every event an id that means something on this server: 3, which is before all ticks to come, to what every lane
-- has passed, and that of this transaction to all others. What a tick sees had its number before the tick: without asking
-- for the number, what was published here before this moment, with the ids of this server, would seem to be passed.
WITH new AS (
    SELECT e.seq, CASE WHEN EXISTS (SELECT 1 FROM {prefix}lanes)
  AND NOT EXISTS (SELECT 1 FROM {prefix}lanes l JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
                  WHERE NOT ((e.seq <= a.last_seq AND pg_visible_in_snapshot(e.xid, a.snap))
                             OR (b.id IS NOT NULL AND e.seq <= l.position AND e.seq <= b.last_seq AND pg_visible_in_snapshot(e.xid, b.snap)))) THEN '3'::xid8 ELSE pg_current_xact_id() END AS xid
    FROM {prefix}events e)
UPDATE {prefix}events e SET xid = new.xid FROM new WHERE e.seq = new.seq AND e.xid <> new.xid
