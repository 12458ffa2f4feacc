UPDATE {prefix}lanes
SET accepted = accepted + $2, delivered = delivered + $3, waiting = waiting + $4, dead = dead + $5,
    discarded = discarded + $6, replayed = replayed + $7, updated_at = clock_timestamp()
WHERE lane = $1 AND shard = 0
