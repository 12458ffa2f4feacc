SELECT e.seq, e.event_type, e.topic, e.key, e.created_at, e.xid::text, e.payload IS NULL FROM {prefix}events e WHERE e.event_id = ANY ($4) AND e.seq BETWEEN $1 AND $2 ORDER BY e.seq LIMIT $3
