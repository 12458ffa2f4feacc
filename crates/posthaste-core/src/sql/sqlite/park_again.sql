-- A parked event changes its state; one that an operator gave up meanwhile stays given up.
UPDATE {prefix}parked
SET state = ?3, attempts = attempts + ?4, available_at = ?5, epoch = ?6,
    code = coalesce(?7, code), last_error = coalesce(?8, last_error),
    first_failed_at = coalesce(first_failed_at, ?9), dead_at = ?10
WHERE lane = ?1 AND seq = ?2 AND state NOT IN ('dead', 'discarded', 'done')
RETURNING key, replay
