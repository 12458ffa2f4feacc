-- What a lane (?1) has not parked of a stretch of the log, by topic.
SELECT coalesce(topic, event_type), count(*) FROM {prefix}events e
WHERE seq > ?2 AND seq <= ?3 AND NOT EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.lane = ?1 AND p.seq = e.seq)
GROUP BY 1
