-- The place has passed these.
DELETE FROM {prefix}parked WHERE lane = $1 AND seq = ANY ($2) AND state = 'done'
