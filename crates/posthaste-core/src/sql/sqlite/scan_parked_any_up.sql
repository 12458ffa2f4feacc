-- Parked by whichever lane; an event that several lanes parked comes several times, one after another.
SELECT e.seq, e.event_type, e.topic, e.key, e.created_at, e.payload IS NULL
FROM {prefix}parked p CROSS JOIN {prefix}events e ON e.seq = p.seq
WHERE p.seq BETWEEN ?1 AND ?2 ORDER BY p.seq
