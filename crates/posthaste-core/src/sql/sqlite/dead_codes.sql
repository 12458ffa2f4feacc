-- What events of a lane died of, by code: of the ?4 newest that are dead, by the index of states: what is discarded or expired is not
-- looked at. There is always a row, so that it can say whether the lane has more.
WITH looked_at AS MATERIALIZED (
    SELECT seq, code, last_error, dead_at, coalesce(first_failed_at, dead_at) AS first_at
    FROM {prefix}parked INDEXED BY {prefix}parked_state
    WHERE lane = ?1 AND state = 'dead' ORDER BY seq DESC LIMIT ?4
), groups AS (
    SELECT code, count(*) AS events, min(first_at) AS first_at, max(dead_at) AS last_at, max(seq) AS seq
    FROM looked_at
    WHERE (?2 IS NULL OR code = ?2) AND (?3 IS NULL OR instr(lower(last_error), lower(?3)) > 0)
    GROUP BY code ORDER BY events DESC, code LIMIT ?5
)
SELECT f.count >= ?4, g.code, g.events, g.first_at, g.last_at, e.event_id, p.last_error
FROM (SELECT count(*) AS count FROM looked_at) f
LEFT JOIN groups g ON true
LEFT JOIN {prefix}parked p ON p.lane = ?1 AND p.seq = g.seq
LEFT JOIN {prefix}events e ON e.seq = g.seq
