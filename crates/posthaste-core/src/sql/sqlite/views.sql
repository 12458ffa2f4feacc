SELECT lane, state, attempts, available_at, code, last_error, first_failed_at, dead_at, replay
FROM {prefix}parked WHERE seq = ?1
