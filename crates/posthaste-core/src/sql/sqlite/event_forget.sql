-- Removes an event if every lane has passed it and nothing parks it.
DELETE FROM {prefix}events
WHERE seq = ?1 AND seq <= (SELECT min(position) FROM {prefix}lanes)
  AND NOT EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.seq = ?1)
