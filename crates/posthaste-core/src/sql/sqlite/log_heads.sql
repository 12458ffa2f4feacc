-- The log from a place on, for a lane with a filter: without the payload, which is read only for what is wanted.
SELECT seq, event_type, topic, key, available_at, expires_at
FROM {prefix}events WHERE seq > ?1 ORDER BY seq
