SELECT seq, event_type, topic, key, created_at, payload IS NULL FROM {prefix}events WHERE seq = ?1
