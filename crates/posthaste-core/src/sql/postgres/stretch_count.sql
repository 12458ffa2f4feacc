-- What a lane ($1) has passed ($2) or not, and has not parked, by topic: of the numbers above $3 up to $4 that the snapshot $5 sees, and of
-- what the transactions $6 wrote with numbers up to $7, which may have committed late. $8-$10: the lane's place, as what one
-- snapshot sees, and of what another one or NULL sees that up to a number.
SELECT e.topic, count(*)
FROM (
    SELECT seq, xid, coalesce(topic, event_type) AS topic FROM {prefix}events WHERE seq > $3 AND seq <= $4
    UNION ALL
    SELECT o.* FROM unnest($6::text[]::xid8[]) x CROSS JOIN LATERAL (
        SELECT seq, xid, coalesce(topic, event_type) FROM {prefix}events WHERE xid = x AND seq <= $7 OFFSET 0) o) e
WHERE pg_visible_in_snapshot(e.xid, (SELECT $5::pg_snapshot))
  AND (pg_visible_in_snapshot(e.xid, (SELECT $8::pg_snapshot))
       OR ($9::text IS NOT NULL AND e.seq <= $10 AND pg_visible_in_snapshot(e.xid, (SELECT $9::pg_snapshot)))) = $2
  AND NOT EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.lane = $1 AND p.seq = e.seq)
GROUP BY 1
