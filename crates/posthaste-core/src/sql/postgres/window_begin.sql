-- As window_page.sql, where something of the window may have a low number: what committed after tick a
-- although its number is not above low ($12) comes first. That is of the transactions that were open in a and
-- ended before b ($15), and of stragglers of later ones (none while the default of seq and CACHE 1 hold, but
-- nothing rests on that). $13, $14: the ends of both snapshots. Transaction and number are compared together:
-- where a few transactions wrote the whole log, the planner likes the primary key more, and would pass over
-- all of it to find that a transaction wrote nothing. low only splits the work between the parts: nothing is
-- lost when it is wrong. Where the late part has a whole page, the new part is not to be used yet. OFFSET 0
-- keeps the order from choosing the index: by primary key the server would pass over the whole log up to low.
SELECT NULL AS seq, CASE WHEN epoch < 0 THEN set_config('application_name', '', true) END AS event_id, NULL AS source,
       NULL AS event_type, NULL AS topic, NULL AS key, NULL AS subject,
       NULL AS schema_version, NULL AS content_type, NULL AS headers, NULL AS occurred_at, NULL AS available_at,
       NULL AS expires_at, clock_timestamp() AS created_at, NULL AS payload, NULL AS payload_bytes,
       ARRAY[waiting, dead,
             (SELECT count(*) FROM {prefix}ticks t WHERE (t.id = $4 AND t.token = $5::uuid) OR (t.id = $6 AND t.token = $7::uuid)),
             (SELECT count(*) FROM (SELECT 1 FROM {prefix}parked p WHERE p.lane = $1 AND p.seq > $10 LIMIT 1) beyond)] AS about
FROM {prefix}lanes WHERE lane = $1 AND shard = 0 AND epoch = $2 AND owner_run = $3
UNION ALL
(SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers::text, occurred_at,
        available_at, expires_at, created_at, CASE WHEN octet_length(payload) <= 8192 THEN payload END, octet_length(payload)::bigint,
        NULL
 FROM (
    SELECT l.* FROM unnest($15::text[]::xid8[]) x, LATERAL (
        SELECT * FROM {prefix}events WHERE (xid, seq) > (x, $10) AND (xid, seq) <= (x, $12) ORDER BY xid, seq LIMIT $11) l
    UNION ALL
    (SELECT * FROM (
        SELECT * FROM {prefix}events
        WHERE xid >= $13::xid8 AND xid < $14::xid8 AND seq > $10 AND seq <= $12
          AND pg_visible_in_snapshot(xid, (SELECT $9::pg_snapshot)) OFFSET 0) stragglers
     ORDER BY seq LIMIT $11)) e
 ORDER BY seq LIMIT $11)
UNION ALL
(SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers::text, occurred_at,
        available_at, expires_at, created_at, CASE WHEN octet_length(payload) <= 8192 THEN payload END, octet_length(payload)::bigint,
        NULL
 FROM {prefix}events
 WHERE seq > greatest($10, $12) AND pg_visible_in_snapshot(xid, (SELECT $9::pg_snapshot))
   AND NOT pg_visible_in_snapshot(xid, (SELECT $8::pg_snapshot))
 ORDER BY seq LIMIT $11)
