SELECT seq, lane, state, attempts, available_at, code, last_error, first_failed_at, dead_at, replay
FROM {prefix}parked WHERE seq = ANY ($1)
