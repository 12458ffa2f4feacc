UPDATE {prefix}parked
SET state = 'dead', available_at = NULL, dead_at = ?3, code = 'buried', last_error = ?4
WHERE lane = ?1 AND seq = ?2 AND state NOT IN ('dead', 'discarded', 'done')
