SELECT seq, event_type, topic, key, created_at, payload IS NULL FROM {prefix}events WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq
