-- First in every command that changes what a lane has parked: settles of the lane wait, and whoever waits behind a key
-- cannot be left behind by a head that goes at the same time.
SELECT clock_timestamp() FROM {prefix}lanes WHERE lane = $1 AND shard = 0 FOR UPDATE
