-- What committed after tick a although its number is low: of the transactions that were open in a ($1), and stragglers of
-- later ones (none while the default of seq and CACHE 1 hold, but nothing rests on that).
-- $2: low of a; $3: the number to go on after; $4, $5: the ends of both snapshots; $6: the snapshot of b; $7: how many;
-- $8: the lane, whose parked rows speak for their events. A long payload is left for event_get.sql.
SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers::text, occurred_at,
       available_at, expires_at, created_at, CASE WHEN octet_length(payload) <= 8192 THEN payload END, octet_length(payload)::bigint,
       EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.lane = $8 AND p.seq = e.seq)
FROM (
    SELECT l.* FROM unnest($1::text[]::xid8[]) x, LATERAL (
        SELECT * FROM {prefix}events WHERE xid = x AND seq > $3 AND seq <= $2 ORDER BY seq LIMIT $7) l
    UNION ALL
    (SELECT * FROM {prefix}events
     WHERE xid >= $4::xid8 AND xid < $5::xid8 AND seq > $3 AND seq <= $2
       AND pg_visible_in_snapshot(xid, (SELECT $6::pg_snapshot)) ORDER BY seq LIMIT $7)) e
ORDER BY seq LIMIT $7
