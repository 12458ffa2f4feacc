-- Every lane with its totals and its place, a few steps in an index each, however long the log is. How far the log goes
-- beyond it is counted in numbers: an upper bound of what is new, beside what commits late.
SELECT l.lane, l.state, l.reason, CASE WHEN l.lease_until > clock_timestamp() THEN l.owner_name END, l.epoch,
       CASE WHEN l.tick_b IS NULL THEN a.last_seq ELSE greatest(l.position, a.low) END AS at,
       l.accepted, l.delivered, l.waiting, l.dead, l.discarded, l.replayed, l.spec,
       l.position, a.snap::text, b.snap::text,
       coalesce(pg_sequence_last_value('{prefix}events_seq'), 0) AS last_seq,
       (SELECT e.created_at FROM {prefix}events e
        WHERE e.seq > CASE WHEN l.tick_b IS NULL THEN a.last_seq ELSE greatest(l.position, a.low) END
        ORDER BY e.seq LIMIT 1)
FROM {prefix}lanes l JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b
WHERE l.shard = 0 ORDER BY l.lane
