DELETE FROM {prefix}parked WHERE lane = $1 AND seq = ANY ($2)
