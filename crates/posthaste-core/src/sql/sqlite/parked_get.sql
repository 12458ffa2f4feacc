SELECT key, state, attempts, replay FROM {prefix}parked WHERE lane = ?1 AND seq = ?2
