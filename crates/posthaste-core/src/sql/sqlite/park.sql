-- Sets an event of the log aside. The key comes from the event, so that a relay need not remember it. What is done counts
-- as not parked: it is replayed.
INSERT INTO {prefix}parked
    (lane, seq, shard, key, state, attempts, available_at, epoch, code, last_error, first_failed_at, dead_at, replay)
SELECT ?1, seq, 0, key, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM {prefix}events WHERE seq = ?2
ON CONFLICT (lane, seq) DO UPDATE
SET state = excluded.state, attempts = excluded.attempts, available_at = excluded.available_at, epoch = excluded.epoch,
    code = excluded.code, last_error = excluded.last_error, first_failed_at = excluded.first_failed_at,
    dead_at = excluded.dead_at, replay = excluded.replay
WHERE {prefix}parked.state = 'done'
RETURNING key
