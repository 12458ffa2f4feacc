DELETE FROM {prefix}inbox WHERE (consumer, event_id, source) IN (
    SELECT consumer, event_id, source FROM {prefix}inbox INDEXED BY {prefix}inbox_age
    WHERE handled_at < ?1 ORDER BY handled_at LIMIT ?2)
