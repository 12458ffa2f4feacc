-- Who started later than the run $2, lives, and defines the lane another way than $3. $4: how long a lease
-- is.
SELECT d.name FROM {prefix}lanes l, {prefix}relays d, {prefix}relays me
WHERE l.lane = $1 AND l.shard = 0 AND l.spec <> $3 AND me.run = $2 AND d.run = l.spec_run AND d.run <> me.run
  AND (d.started_at, d.run) > (me.started_at, me.run)
  AND (d.seen_at > clock_timestamp() - 2 * $4 * interval '1 microsecond'
            OR (l.owner_run = d.run AND l.lease_until > clock_timestamp()))
