DELETE FROM {prefix}dedup WHERE (consumer, event_id, source) IN (
    SELECT consumer, event_id, source FROM {prefix}dedup INDEXED BY {prefix}dedup_age
    WHERE state <> 'in_progress' AND at < ?1 ORDER BY at LIMIT ?2)
