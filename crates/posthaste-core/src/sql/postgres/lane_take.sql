-- Takes the lane if it is free: nobody owns it, its lease ended, is longer than any lease can be (the clock went back), or
-- is of the same run. A stumble is an end without a clean stop with something due to deliver to a target that took events.
UPDATE {prefix}lanes l
SET owner_name = $2, owner_run = $3, epoch = l.epoch + 1, lease_until = clock_timestamp() + $4 * interval '1 microsecond',
    spec = $5, spec_run = $3, updated_at = clock_timestamp(),
    wanted_until = CASE WHEN l.wanted_by = $3 THEN 'epoch' ELSE l.wanted_until END,
    -- Three questions, each by an index: what is parked and due, what is beyond the place, and what was open at its tick.
    stumbles = CASE WHEN l.owner_run IS NOT NULL AND l.state = 'active' AND (
        EXISTS (
            SELECT 1 FROM {prefix}parked p
            WHERE p.lane = l.lane AND p.shard = l.shard AND p.available_at IS NOT NULL AND p.available_at <= clock_timestamp())
        OR EXISTS (
            SELECT 1 FROM {prefix}ticks a JOIN {prefix}events e ON e.seq > greatest(a.low, l.position)
            WHERE a.id = l.tick_a AND NOT pg_visible_in_snapshot(e.xid, a.snap))
        OR EXISTS (
            SELECT 1 FROM {prefix}ticks a, pg_snapshot_xip(a.snap) x, LATERAL (
                SELECT seq, xid FROM {prefix}events WHERE xid >= x AND xid <= x ORDER BY xid DESC, seq DESC LIMIT 1) e
            WHERE a.id = l.tick_a
              AND (l.tick_b IS NULL OR e.seq > l.position
                   OR NOT pg_visible_in_snapshot(e.xid, (SELECT snap FROM {prefix}ticks b WHERE b.id = l.tick_b)))))
      THEN l.stumbles + 1 ELSE 1 END
WHERE lane = $1 AND shard = 0 AND state IN ('active', 'unavailable')
  AND (owner_run = $3
       OR ((owner_run IS NULL OR lease_until <= clock_timestamp()
            OR lease_until > clock_timestamp() + 2 * $4 * interval '1 microsecond')
           -- It is not promised to somebody else.
           AND (wanted_by IS NULL OR wanted_by = $3 OR wanted_until <= clock_timestamp())))
  -- Nobody who started later, and lives, defines the lane another way.
  AND (spec = $5 OR spec_run IS NULL OR spec_run = $3 OR NOT EXISTS (
      SELECT 1 FROM {prefix}relays d, {prefix}relays me
      WHERE d.run = l.spec_run AND me.run = $3 AND (d.started_at, d.run) > (me.started_at, me.run)
        AND (d.seen_at > clock_timestamp() - 2 * $4 * interval '1 microsecond'
            OR (l.owner_run = d.run AND l.lease_until > clock_timestamp()))))
RETURNING epoch, tick_a, tick_b, position, stumbles, waiting
