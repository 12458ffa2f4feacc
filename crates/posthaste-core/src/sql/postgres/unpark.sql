-- Parked events were delivered: those that the place has passed go, and the others stay as done until it does, or the log
-- would hand them out again after a crash. The lane's row has its new place already. Answers what each was, and whether it
-- stays.
WITH ended AS MATERIALIZED (
    SELECT p.seq, p.key, p.replay,
           e.seq IS NOT NULL AND NOT pg_visible_in_snapshot(e.xid, a.snap)
           AND NOT (b.id IS NOT NULL AND e.seq <= l.position AND pg_visible_in_snapshot(e.xid, b.snap)) AS stays
    FROM {prefix}parked p
    JOIN {prefix}lanes l ON l.lane = p.lane AND l.shard = 0
    JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
    LEFT JOIN {prefix}events e ON e.seq = p.seq
    WHERE p.lane = $1 AND p.seq = ANY ($2) AND p.state NOT IN ('dead', 'discarded', 'done')),
gone AS (
    DELETE FROM {prefix}parked p USING ended WHERE p.lane = $1 AND p.seq = ended.seq AND NOT ended.stays),
kept AS (
    UPDATE {prefix}parked p SET state = 'done', available_at = NULL FROM ended
    WHERE p.lane = $1 AND p.seq = ended.seq AND ended.stays)
SELECT key, replay, seq, stays FROM ended
