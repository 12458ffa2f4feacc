-- The place has passed these. By primary key: without statistics the planner would take the index of all that is done.
DELETE FROM {prefix}parked WHERE lane = $1 AND seq = ANY ($2) AND state || '' = 'done'
