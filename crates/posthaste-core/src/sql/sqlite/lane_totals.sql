UPDATE {prefix}lanes
SET accepted = accepted + ?2, delivered = delivered + ?3, waiting = waiting + ?4, dead = dead + ?5,
    discarded = discarded + ?6, updated_at = ?7
WHERE lane = ?1 AND shard = 0
