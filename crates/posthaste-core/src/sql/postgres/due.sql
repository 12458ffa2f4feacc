-- Parked events whose time has come, but for those that are handed out already ($3).
SELECT e.seq, e.event_id, e.source, e.event_type, e.topic, e.key, e.subject, e.schema_version, e.content_type, e.headers::text,
       e.occurred_at, e.available_at, e.expires_at, e.created_at, CASE WHEN octet_length(e.payload) <= 8192 THEN e.payload END, octet_length(e.payload)::bigint,
       p.state, p.attempts, p.replay
FROM {prefix}parked p JOIN {prefix}events e ON e.seq = p.seq
WHERE p.lane = $1 AND p.shard = 0 AND p.available_at IS NOT NULL AND p.available_at <= $2 AND p.seq <> ALL ($3::bigint[])
ORDER BY p.available_at, p.seq LIMIT $4
