-- The first $2 lanes after the name $1 with their totals and their places ('' and NULL: every lane), a few
-- steps in an index each, however long the log is. How far the log goes beyond it is counted in numbers, an
-- upper bound of what is new; what committed late has low numbers, and is looked for by the transactions
-- that were open at the lane's tick or came right after it, at most a thousand of each.
SELECT l.lane, l.state, l.reason, CASE WHEN l.lease_until > clock_timestamp() THEN l.owner_name END, l.epoch, p.at,
       l.accepted, l.delivered, l.waiting, l.dead, l.discarded, l.replayed, l.spec,
       l.position, a.snap::text, b.snap::text,
       coalesce(pg_sequence_last_value('{prefix}events_seq'), 0) AS last_seq,
       least((SELECT e.created_at FROM {prefix}events e WHERE e.seq > p.at ORDER BY e.seq LIMIT 1), late.oldest),
       late.events,
       -- Above the first number is whatever the place has not passed, but for what committed late; above the second nothing that it has.
       CASE WHEN l.tick_b IS NULL THEN a.low ELSE greatest(a.low, least(l.position, b.low)) END,
       CASE WHEN l.tick_b IS NULL THEN a.last_seq ELSE greatest(a.last_seq, least(l.position, b.last_seq)) END,
       l.tick_a, l.tick_b
FROM {prefix}lanes l JOIN {prefix}ticks a ON a.id = l.tick_a LEFT JOIN {prefix}ticks b ON b.id = l.tick_b,
LATERAL (SELECT CASE WHEN l.tick_b IS NULL THEN a.last_seq ELSE greatest(l.position, a.low) END AS at) p,
LATERAL (
    SELECT count(*) AS events, min(e.created_at) AS oldest
    FROM (
        SELECT o.* FROM pg_snapshot_xip(a.snap) x, LATERAL (
            SELECT seq, xid, created_at FROM {prefix}events WHERE xid >= x AND (xid, seq) <= (x, p.at) ORDER BY xid, seq LIMIT 1000) o
        UNION ALL
        (SELECT seq, xid, created_at FROM {prefix}events WHERE xid >= pg_snapshot_xmax(a.snap) ORDER BY xid, seq LIMIT 1000)) e
    WHERE e.seq <= p.at AND NOT (b.id IS NOT NULL AND e.seq <= l.position AND pg_visible_in_snapshot(e.xid, b.snap))) late
WHERE l.shard = 0 AND l.lane > $1::text ORDER BY l.lane LIMIT $2::int8
