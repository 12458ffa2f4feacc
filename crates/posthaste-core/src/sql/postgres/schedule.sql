UPDATE {prefix}parked SET available_at = $3 WHERE lane = $1 AND seq = ANY ($2) AND state IN ('retrying', 'scheduled')
