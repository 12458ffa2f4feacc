-- What a lane has parked in one state, without looking at what it has in others.
SELECT e.seq, e.event_type, e.topic, e.key, e.created_at
FROM {prefix}parked p INDEXED BY {prefix}parked_state CROSS JOIN {prefix}events e ON e.seq = p.seq
WHERE p.lane = ?3 AND p.state = ?4 AND p.seq BETWEEN ?1 AND ?2 ORDER BY p.seq DESC LIMIT ?5
