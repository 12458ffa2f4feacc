SELECT count(*) FROM {prefix}parked WHERE lane = $1 AND state = 'done' AND seq > $2
