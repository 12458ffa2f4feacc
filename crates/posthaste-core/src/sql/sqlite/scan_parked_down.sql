SELECT e.seq, e.event_type, e.topic, e.key, e.created_at, e.payload IS NULL
FROM {prefix}parked p CROSS JOIN {prefix}events e ON e.seq = p.seq
WHERE p.lane = ?3 AND p.seq BETWEEN ?1 AND ?2 ORDER BY p.seq DESC
