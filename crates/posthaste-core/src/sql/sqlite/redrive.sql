UPDATE {prefix}parked SET state = 'retrying', available_at = ?3, dead_at = NULL, replay = 1
WHERE lane = ?1 AND seq = ?2 AND state = 'dead'
