-- What waits in each of the first $3 lanes after the name $2: of the first $1 that are retried how many
-- there are and how many of them have failed, and when the oldest was taken in whose time has come. By the
-- index of states, so that it costs the same however much is parked; the bounds of a state and the order by
-- it leave the planner no other.
SELECT l.lane, r.looked_at, r.failed,
       (SELECT e.created_at FROM {prefix}events e WHERE e.seq = (
            SELECT min(o.seq) FROM unnest(ARRAY['retrying', 'behind', 'leased']) s CROSS JOIN LATERAL (
                SELECT p.seq FROM {prefix}parked p WHERE p.lane = l.lane AND p.state >= s AND p.state <= s
                ORDER BY p.state, p.seq LIMIT 1) o))
FROM (SELECT DISTINCT lane FROM {prefix}lanes WHERE lane > $2::text ORDER BY lane LIMIT $3::int8) l
CROSS JOIN LATERAL (
    SELECT count(*) AS looked_at, count(first_failed_at) AS failed FROM (
        SELECT p.first_failed_at FROM {prefix}parked p
        WHERE p.lane = l.lane AND p.state >= 'retrying' AND p.state <= 'retrying' ORDER BY p.state, p.seq LIMIT $1) p) r
