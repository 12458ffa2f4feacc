DELETE FROM {prefix}parked WHERE lane = ?1 AND seq = ?2 AND state NOT IN ('dead', 'discarded', 'done') RETURNING key, replay
