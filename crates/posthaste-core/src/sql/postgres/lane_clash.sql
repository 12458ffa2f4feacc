-- Who started later than the run $3, lives, and defines the lane another way than $4. $5: how long a lease is.
SELECT d.name FROM {prefix}lanes l, {prefix}relays d, {prefix}relays me
WHERE l.lane = $1 AND l.shard = $2 AND l.spec <> $4 AND me.run = $3 AND d.run = l.spec_run AND d.run <> me.run
  AND (d.started_at, d.run) > (me.started_at, me.run)
  AND (d.seen_at > clock_timestamp() - 2 * $5 * interval '1 microsecond'
            OR (l.owner_run = d.run AND l.lease_until > clock_timestamp()))
