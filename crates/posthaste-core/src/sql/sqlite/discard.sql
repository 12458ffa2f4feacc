UPDATE {prefix}parked
SET state = 'discarded', available_at = NULL, dead_at = ?3, code = 'discarded', last_error = ?4
WHERE lane = ?1 AND seq = ?2 AND state NOT IN ('discarded', 'done')
