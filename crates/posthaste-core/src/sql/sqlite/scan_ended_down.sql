-- What a lane has parked in one state, without looking at what it has in others. Both bounds are written out: of a BETWEEN, newer
-- versions of SQLite seek only the lower one here.
SELECT e.seq, e.event_type, e.topic, e.key, e.created_at, e.payload IS NULL
FROM {prefix}parked p INDEXED BY {prefix}parked_state CROSS JOIN {prefix}events e ON e.seq = p.seq
WHERE p.lane = ?3 AND p.state = ?4 AND p.seq >= ?1 AND p.seq <= ?2 ORDER BY p.seq DESC LIMIT ?5
