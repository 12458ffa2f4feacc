SELECT state, at FROM {prefix}dedup WHERE consumer = ?1 AND event_id = ?2 AND source = ?3
