-- Parked events change their state; one that an operator gave up meanwhile stays given up.
UPDATE {prefix}parked p
SET state = CASE WHEN u.state = 'behind' AND (p.key IS NULL OR p.replay OR NOT $4) THEN 'retrying' ELSE u.state END,
    available_at = CASE WHEN u.state = 'behind' AND (p.key IS NULL OR p.replay OR NOT $4) THEN $5 ELSE u.available_at END,
    attempts = p.attempts + u.attempts, epoch = $3, shard = $2,
    code = coalesce(u.code, p.code), last_error = coalesce(u.last_error, p.last_error),
    first_failed_at = coalesce(p.first_failed_at, u.failed_at), dead_at = u.dead_at
FROM unnest($6::bigint[], $7::text[], $8::bigint[], $9::timestamptz[], $10::text[], $11::text[], $12::timestamptz[], $13::timestamptz[])
     AS u (seq, state, attempts, available_at, code, last_error, failed_at, dead_at)
WHERE p.lane = $1 AND p.seq = u.seq AND p.state NOT IN ('dead', 'discarded', 'done')
RETURNING p.state, p.key, p.replay
