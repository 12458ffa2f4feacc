SELECT coalesce(topic, event_type) FROM {prefix}events WHERE seq > ?1 AND seq <= ?2 ORDER BY seq
