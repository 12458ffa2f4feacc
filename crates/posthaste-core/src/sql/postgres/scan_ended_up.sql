-- What a lane has parked in the state $5, or any lane where $4 is NULL, without looking at what it has in others: of each lane a page, by
-- the index of states, and of these pages together the first one. OFFSET 0: from each row to its event, as scan_parked_up.sql does.
-- State and number are compared together: without statistics the planner likes the primary key more, which has what is in other states too.
SELECT DISTINCT ON (h.seq) h.*
FROM (SELECT DISTINCT lane FROM {prefix}lanes WHERE $4::text IS NULL OR lane = $4) l
CROSS JOIN LATERAL (
    SELECT e.* FROM {prefix}parked p
    CROSS JOIN LATERAL (
        SELECT e.seq, e.event_type, e.topic, e.key, e.created_at, e.xid::text, e.payload IS NULL AS is_erased FROM {prefix}events e WHERE e.seq = p.seq
        OFFSET 0
    ) e
    WHERE p.lane = l.lane AND (p.state, p.seq) >= ($5, $1) AND (p.state, p.seq) <= ($5, $2)
    ORDER BY p.state, p.seq LIMIT $3
) h
ORDER BY h.seq LIMIT $3
