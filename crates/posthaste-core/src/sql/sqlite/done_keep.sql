-- Delivered, but the place has not passed it: without a row the log would hand it out again after a crash.
UPDATE {prefix}parked SET state = 'done', available_at = NULL
WHERE lane = ?1 AND seq = ?2 AND state NOT IN ('dead', 'discarded', 'done') RETURNING key, replay
