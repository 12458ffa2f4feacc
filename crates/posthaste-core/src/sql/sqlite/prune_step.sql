-- The next events that every lane has passed, that are old enough and that nothing parks.
SELECT seq FROM {prefix}events e
WHERE e.seq > ?1 AND e.seq <= ?2 AND e.created_at < ?3
  AND NOT EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.seq = e.seq)
ORDER BY e.seq LIMIT ?4
