-- The lane as a claim sees it, if its lease still holds: whether something waits or is dead, and the time.
SELECT waiting > 0, dead > 0, clock_timestamp()
FROM {prefix}lanes WHERE lane = $1 AND shard = 0 AND epoch = $2 AND owner_run = $3
