-- Sets an event of the log aside. The key comes from the event, so that a relay need not remember it.
INSERT INTO {prefix}parked
    (lane, seq, shard, key, state, attempts, available_at, epoch, code, last_error, first_failed_at, dead_at, replay)
SELECT ?1, seq, ?3, key, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 FROM {prefix}events WHERE seq = ?2
ON CONFLICT (lane, seq) DO NOTHING
RETURNING key
