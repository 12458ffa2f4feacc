-- Answers what each was before.
UPDATE {prefix}parked p
SET state = 'discarded', available_at = NULL, dead_at = $3, code = 'discarded', last_error = $4
FROM (SELECT seq, state FROM {prefix}parked WHERE lane = $1 AND seq = ANY ($2) AND state NOT IN ('discarded', 'done')) was
WHERE p.lane = $1 AND p.seq = was.seq
RETURNING was.state
