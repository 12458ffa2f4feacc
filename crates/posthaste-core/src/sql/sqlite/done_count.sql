SELECT count(*) FROM {prefix}parked INDEXED BY {prefix}parked_state WHERE lane = ?1 AND state = 'done' AND seq > ?2
