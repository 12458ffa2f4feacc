-- Parked events change their state; one that an operator gave up meanwhile stays given up.
UPDATE {prefix}parked p
SET state = CASE WHEN u.state = 'behind' AND (p.key IS NULL OR p.replay OR NOT $3) THEN 'retrying' ELSE u.state END,
    available_at = CASE WHEN u.state = 'behind' AND (p.key IS NULL OR p.replay OR NOT $3) THEN $4 ELSE u.available_at END,
    attempts = p.attempts + u.attempts, epoch = $2,
    code = coalesce(u.code, p.code), last_error = coalesce(u.last_error, p.last_error),
    first_failed_at = coalesce(p.first_failed_at, u.failed_at), dead_at = u.dead_at
FROM unnest($5::bigint[], $6::text[], $7::bigint[], $8::timestamptz[], $9::text[], $10::text[], $11::timestamptz[], $12::timestamptz[])
     AS u (seq, state, attempts, available_at, code, last_error, failed_at, dead_at)
WHERE p.lane = $1 AND p.seq = u.seq AND p.state NOT IN ('dead', 'discarded', 'done')
RETURNING p.state, p.key, p.replay
