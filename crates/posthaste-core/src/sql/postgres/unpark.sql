DELETE FROM {prefix}parked WHERE lane = $1 AND seq = ANY ($2) AND state NOT IN ('dead', 'discarded') RETURNING key, replay
