-- What waits behind the head $3 of a key, in order.
SELECT e.seq, e.event_id, e.source, e.event_type, e.topic, e.key, e.subject, e.schema_version, e.content_type, e.headers::text,
       e.occurred_at, e.available_at, e.expires_at, e.created_at, CASE WHEN octet_length(e.payload) <= 8192 THEN e.payload END, octet_length(e.payload)::bigint,
       p.state, p.attempts, p.replay
FROM {prefix}parked p JOIN {prefix}events e ON e.seq = p.seq
WHERE p.lane = $1 AND p.shard = 0 AND p.key = $2 AND p.seq > $3
  AND p.key IS NOT NULL AND NOT p.replay AND p.state IN ('retrying', 'behind', 'leased')
  -- In a lane that blocks on dead events ($4) nothing beyond one of the key may go.
  AND NOT ($4 AND EXISTS (SELECT 1 FROM {prefix}parked d WHERE d.lane = $1 AND d.shard = 0 AND d.key = $2
                         AND d.seq > $3 AND d.seq < p.seq AND d.key IS NOT NULL AND NOT d.replay AND d.state = 'dead'))
ORDER BY p.seq LIMIT $5
