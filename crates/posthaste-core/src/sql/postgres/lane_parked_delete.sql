DELETE FROM {prefix}parked
WHERE lane = $1 AND seq IN (SELECT seq FROM {prefix}parked WHERE lane = $1 ORDER BY seq LIMIT $2)
