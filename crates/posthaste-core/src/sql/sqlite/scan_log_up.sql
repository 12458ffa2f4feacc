SELECT seq, event_type, topic, key, created_at FROM {prefix}events WHERE seq > ?1 AND seq <= ?2 ORDER BY seq
