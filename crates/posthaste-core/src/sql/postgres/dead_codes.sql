-- What events died of, by lane and code: of each lane the $4 newest that are dead, by the index of states (its bounds and the order by it
-- leave the planner no other): what is discarded or expired is not looked at. There is always a row, so that it can say whether a
-- lane has more.
WITH looked_at AS MATERIALIZED (
    SELECT d.* FROM (SELECT DISTINCT lane FROM {prefix}lanes WHERE $1::text IS NULL OR lane = $1) l
    CROSS JOIN LATERAL (
        SELECT p.lane, p.seq, p.code, p.last_error, p.dead_at, coalesce(p.first_failed_at, p.dead_at) AS first_at
        FROM {prefix}parked p WHERE p.lane = l.lane AND p.state >= 'dead' AND p.state <= 'dead'
        ORDER BY p.state DESC, p.seq DESC LIMIT $4
    ) d
), groups AS (
    SELECT lane, code, count(*) AS events, min(first_at) AS first_at, max(dead_at) AS last_at, max(seq) AS seq
    FROM looked_at
    WHERE ($2::text IS NULL OR code = $2)
      AND ($3::text IS NULL OR strpos(lower(last_error COLLATE "C"), lower($3 COLLATE "C")) > 0)
    GROUP BY lane, code ORDER BY events DESC, lane, code LIMIT $5
)
SELECT f.is_partial, g.lane, g.code, g.events, g.first_at, g.last_at,
       (SELECT e.event_id FROM {prefix}events e WHERE e.seq = g.seq),
       (SELECT p.last_error FROM {prefix}parked p WHERE p.lane = g.lane AND p.seq = g.seq)
FROM (SELECT EXISTS (SELECT FROM looked_at GROUP BY lane HAVING count(*) >= $4) AS is_partial) f
LEFT JOIN groups g ON true
ORDER BY g.events DESC, g.lane, g.code
