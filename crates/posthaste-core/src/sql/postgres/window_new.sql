-- What tick b ($2) sees and tick a ($1) does not, above a number, by primary key, in pages. No other condition on xid: an
-- indexable one makes the planner sort the whole window for each page after an outage. low only splits the work between
-- this and window_late.sql. The snapshots are scalar subqueries, or they would be parsed once per row.
SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers::text, occurred_at,
       available_at, expires_at, created_at, CASE WHEN octet_length(payload) <= 8192 THEN payload END, octet_length(payload)::bigint,
       EXISTS (SELECT 1 FROM {prefix}parked p WHERE p.lane = $5 AND p.seq = e.seq)
FROM {prefix}events e
WHERE seq > $3 AND pg_visible_in_snapshot(xid, (SELECT $2::pg_snapshot)) AND NOT pg_visible_in_snapshot(xid, (SELECT $1::pg_snapshot))
ORDER BY seq LIMIT $4
