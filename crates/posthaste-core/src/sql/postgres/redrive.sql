-- A fresh budget, outside the key's order. What failed and why stays to be seen.
UPDATE {prefix}parked SET state = 'retrying', available_at = $3, dead_at = NULL, attempts = 0, replay = true
WHERE lane = $1 AND seq = ANY ($2) AND state = 'dead'
