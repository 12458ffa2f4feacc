-- A page between two ticks, and before it a row about the lane: one statement, so one snapshot for all of it.
-- The first row says whether the lease holds (there is none otherwise), the time (in place of created_at),
-- and what is parked: waiting, dead, which of the two ticks are there with the tokens that are known, whether
-- anything is parked beyond the number that the page begins after, and whether there are stragglers (below).
-- A page from a server without both ticks would be short.
-- Then what tick b ($9) sees and tick a ($8) does not, above that number and low ($12), by primary key. What
-- is not above low is for window_begin.sql, which is asked where a transaction that was open in a has ended,
-- or where there are stragglers: of ids between the ends of both snapshots ($13, $14) with a low number. No
-- other condition on xid: an indexable one makes the planner sort the whole window for each page after an
-- outage. The snapshots are scalar subqueries, or they would be parsed once per row. A long payload is left
-- for event_get.sql. set_config is never called: a statement that names it is never run in parallel, and so
-- the parts come one after another.
SELECT NULL AS seq, CASE WHEN epoch < 0 THEN set_config('application_name', '', true) END AS event_id, NULL AS source,
       NULL AS event_type, NULL AS topic, NULL AS key, NULL AS subject,
       NULL AS schema_version, NULL AS content_type, NULL AS headers, NULL AS occurred_at, NULL AS available_at,
       NULL AS expires_at, clock_timestamp() AS created_at, NULL AS payload, NULL AS payload_bytes,
       ARRAY[waiting, dead,
             (SELECT count(*) FROM {prefix}ticks t WHERE (t.id = $4 AND t.token = $5::uuid) OR (t.id = $6 AND t.token = $7::uuid)),
             (SELECT count(*) FROM (SELECT 1 FROM {prefix}parked p
                                    WHERE p.lane = $1 AND p.seq > greatest($10, $12) LIMIT 1) beyond),
             CASE WHEN $10 < $12 THEN (SELECT count(*) FROM (
                 SELECT 1 FROM {prefix}events WHERE xid >= $13::xid8 AND xid < $14::xid8 AND seq > $10 AND seq <= $12
                     AND pg_visible_in_snapshot(xid, (SELECT $9::pg_snapshot)) LIMIT 1) stragglers) END] AS about
FROM {prefix}lanes WHERE lane = $1 AND shard = 0 AND epoch = $2 AND owner_run = $3
UNION ALL
(SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers::text, occurred_at,
        available_at, expires_at, created_at, CASE WHEN octet_length(payload) <= 8192 THEN payload END, octet_length(payload)::bigint,
        NULL
 FROM {prefix}events
 WHERE seq > greatest($10, $12) AND pg_visible_in_snapshot(xid, (SELECT $9::pg_snapshot)) AND NOT pg_visible_in_snapshot(xid, (SELECT $8::pg_snapshot))
 ORDER BY seq LIMIT $11)
