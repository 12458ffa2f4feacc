-- What a lane has parked, or any lane where $4 is NULL.
SELECT e.seq, e.event_type, e.topic, e.key, e.created_at, e.xid::text, e.payload IS NULL FROM {prefix}events e
WHERE e.seq IN (SELECT p.seq FROM {prefix}parked p WHERE p.seq BETWEEN $1 AND $2 AND ($4::text IS NULL OR p.lane = $4))
ORDER BY e.seq LIMIT $3
