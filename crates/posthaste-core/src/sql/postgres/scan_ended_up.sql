-- What a lane has parked in the state $5, or any lane where $4 is NULL, without looking at what it has in others: of each lane a page, by
-- the index of states, and of these pages together the first one. OFFSET 0: from each row to its event, as scan_parked_up.sql does.
SELECT DISTINCT ON (h.seq) h.*
FROM (SELECT DISTINCT lane FROM {prefix}lanes WHERE $4::text IS NULL OR lane = $4) l
CROSS JOIN LATERAL (
    SELECT e.* FROM {prefix}parked p
    CROSS JOIN LATERAL (
        SELECT e.seq, e.event_type, e.topic, e.key, e.created_at, e.xid::text, e.payload IS NULL AS is_erased FROM {prefix}events e WHERE e.seq = p.seq
        OFFSET 0
    ) e
    WHERE p.lane = l.lane AND p.state = $5 AND p.seq BETWEEN $1 AND $2 ORDER BY p.seq LIMIT $3
) h
ORDER BY h.seq LIMIT $3
