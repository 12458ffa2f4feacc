-- Sets events of the log aside. The key comes from the event, so that a relay need not remember it. What would wait behind
-- a key but has none, or is in a lane without order ($4), is behind nobody and due now ($5). What is done counts as not
-- parked: it is replayed.
INSERT INTO {prefix}parked AS p
    (lane, seq, shard, key, state, attempts, available_at, epoch, code, last_error, first_failed_at, dead_at, replay)
SELECT $1, e.seq, $2, e.key,
       CASE WHEN u.state = 'behind' AND (e.key IS NULL OR NOT $4) THEN 'retrying' ELSE u.state END,
       u.attempts,
       CASE WHEN u.state = 'behind' AND (e.key IS NULL OR NOT $4) THEN $5 ELSE u.available_at END,
       $3, u.code, u.last_error, u.failed_at, u.dead_at, $14
FROM unnest($6::bigint[], $7::text[], $8::bigint[], $9::timestamptz[], $10::text[], $11::text[], $12::timestamptz[], $13::timestamptz[])
     AS u (seq, state, attempts, available_at, code, last_error, failed_at, dead_at)
JOIN {prefix}events e ON e.seq = u.seq
ON CONFLICT (lane, seq) DO UPDATE
SET state = excluded.state, attempts = excluded.attempts, available_at = excluded.available_at, epoch = excluded.epoch,
    code = excluded.code, last_error = excluded.last_error, first_failed_at = excluded.first_failed_at,
    dead_at = excluded.dead_at, replay = excluded.replay
WHERE p.state = 'done'
RETURNING p.state, p.key, p.replay
