-- Sets events of the log aside. The key comes from the event, so that a relay need not remember it. What
-- would wait behind a key but has none, or is in a lane without order ($3), is behind nobody and due now
-- ($4). What is done counts as not parked: it is replayed.
INSERT INTO {prefix}parked AS p
    (lane, seq, shard, key, state, attempts, available_at, epoch, code, last_error, first_failed_at, dead_at, replay)
SELECT $1, e.seq, 0, e.key,
       CASE WHEN u.state = 'behind' AND (e.key IS NULL OR NOT $3) THEN 'retrying' ELSE u.state END,
       u.attempts,
       CASE WHEN u.state = 'behind' AND (e.key IS NULL OR NOT $3) THEN $4 ELSE u.available_at END,
       $2, u.code, u.last_error, u.failed_at, u.dead_at, $13
FROM unnest($5::bigint[], $6::text[], $7::bigint[], $8::timestamptz[], $9::text[], $10::text[], $11::timestamptz[], $12::timestamptz[])
     AS u (seq, state, attempts, available_at, code, last_error, failed_at, dead_at)
JOIN {prefix}events e ON e.seq = u.seq
ON CONFLICT (lane, seq) DO UPDATE
SET state = excluded.state, attempts = excluded.attempts, available_at = excluded.available_at, epoch = excluded.epoch,
    code = excluded.code, last_error = excluded.last_error, first_failed_at = excluded.first_failed_at,
    dead_at = excluded.dead_at, replay = excluded.replay
WHERE p.state = 'done'
RETURNING p.state, p.key, p.replay
