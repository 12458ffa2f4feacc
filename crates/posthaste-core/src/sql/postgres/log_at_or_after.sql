SELECT seq, created_at FROM {prefix}events WHERE seq >= $1 ORDER BY seq LIMIT 1
