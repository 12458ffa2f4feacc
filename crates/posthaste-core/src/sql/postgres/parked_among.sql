-- Which of these events have a parked row in the lane: that row speaks for them.
SELECT seq, state = 'done' FROM {prefix}parked WHERE lane = $1 AND seq = ANY ($2)
