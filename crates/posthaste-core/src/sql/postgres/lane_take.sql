-- Takes the lane if it is free: nobody owns it, its lease ended, is longer than any lease can be (the clock went back), or
-- is of the same run. A stumble is an end without a clean stop with something due to deliver to a target that took events.
UPDATE {prefix}lanes l
SET owner_name = $3, owner_run = $4, epoch = l.epoch + 1, lease_until = clock_timestamp() + $5 * interval '1 microsecond',
    spec = $6, updated_at = clock_timestamp(),
    -- Three questions, each by an index: what is parked and due, what is beyond the place, and what was open at its tick.
    stumbles = CASE WHEN l.owner_run IS NOT NULL AND l.state = 'active' AND (
        EXISTS (
            SELECT 1 FROM {prefix}parked p
            WHERE p.lane = l.lane AND p.shard = l.shard AND p.available_at IS NOT NULL AND p.available_at <= clock_timestamp())
        OR EXISTS (
            SELECT 1 FROM {prefix}ticks a JOIN {prefix}events e ON e.seq > greatest(a.low, l.position)
            WHERE a.id = l.tick_a AND NOT pg_visible_in_snapshot(e.xid, a.snap))
        OR EXISTS (
            SELECT 1 FROM {prefix}ticks a, pg_snapshot_xip(a.snap) x JOIN {prefix}events e ON e.xid = x
            WHERE a.id = l.tick_a
              AND (l.tick_b IS NULL OR e.seq > l.position
                   OR NOT pg_visible_in_snapshot(e.xid, (SELECT snap FROM {prefix}ticks b WHERE b.id = l.tick_b)))))
      THEN l.stumbles + 1 ELSE 1 END
WHERE lane = $1 AND shard = $2 AND state IN ('active', 'unavailable')
  AND (owner_run IS NULL OR owner_run = $4 OR lease_until <= clock_timestamp()
       OR lease_until > clock_timestamp() + 2 * $5 * interval '1 microsecond')
RETURNING epoch, tick_a, tick_b, position, stumbles, waiting
