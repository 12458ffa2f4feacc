-- The log from a place on, for a lane that wants every topic: one pass.
SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers, occurred_at, available_at, expires_at, created_at, payload
FROM {prefix}events WHERE seq > ?1 ORDER BY seq
