UPDATE {prefix}lanes
SET accepted = accepted + $3, delivered = delivered + $4, waiting = waiting + $5, dead = dead + $6,
    discarded = discarded + $7, replayed = replayed + $8, updated_at = clock_timestamp()
WHERE lane = $1 AND shard = $2
