INSERT INTO {prefix}audit (actor, via, command, filter, matched, changed) VALUES ($1, $2, $3, $4, $5, $6)
