-- What a lane has parked, or any lane where $4 is NULL. Along the index of what is parked, and from each to its event: what is parked may
-- be few and far back, and no plan shall walk the log for it.
SELECT e.* FROM (
    SELECT DISTINCT p.seq FROM {prefix}parked p WHERE p.seq BETWEEN $1 AND $2 AND ($4::text IS NULL OR p.lane = $4) ORDER BY p.seq DESC
) p
CROSS JOIN LATERAL (
    SELECT e.seq, e.event_type, e.topic, e.key, e.created_at, e.xid::text, e.payload IS NULL FROM {prefix}events e WHERE e.seq = p.seq
    OFFSET 0
) e
ORDER BY p.seq DESC LIMIT $3
