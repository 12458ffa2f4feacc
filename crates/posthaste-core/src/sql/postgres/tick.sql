-- Looks whether there is anything new since the tick $1 and, if so, notes what is visible now: one statement,
-- whose commit makes everything that the tick sees durable before it is delivered, and its ids unrepeatable.
-- $1, $2: the newest tick that is known here, and its token. $3, $4: the end of its snapshot, and what was
-- open in it. $5: tick in any case. $6-$8: lane, epoch and run of the lease for which somebody looks, or
-- NULL. $12: since when the server runs that is known to be this one, or NULL.
-- The first row has the answer in the columns after those of an event, and in `about` what the first row of a
-- page has (window_page.sql), also where there is no tick: a look that finds nothing is all of a claim. No
-- row of t: the server is not the one it was. The new tick's predecessor is visible to this statement, so
-- ticks see more and more. The scalar ORDER BY ... LIMIT 1 forms are needed: EXISTS becomes a sequential
-- scan, and so does xid = x where a few transactions wrote the whole log, as the planner then expects to meet
-- a row of x soon.
-- If this look makes the tick, at most $9 rows follow: the first page of what the new tick sees and the tick
-- $1 does not. $10, $11: low and snapshot of that tick. No page where a transaction that was open has ended:
-- what it wrote comes first, and window_begin.sql reads that.
-- Every look asks which server this is. A proxy, a pooler or a DNS name can lead to a restored copy from one
-- statement to the next, without any error, and the copy has all ticks with their tokens. Its own transaction
-- ids mean nothing to them: a tick made there would pass over events that nobody has read. Reading the
-- control file costs a quarter of a look, so the start of the server stands for it where that is known.
WITH home AS (SELECT CASE WHEN $12 = (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint THEN true
                          ELSE m.system_id = (SELECT system_identifier::text FROM pg_control_system()) END
                     AND m.database_oid = d.oid::bigint
                     AND pg_snapshot_xmax(pg_current_snapshot()) >= $3::text::xid8 AS is_home
              FROM {prefix}meta m, pg_database d
              WHERE m.id = 1 AND d.datname = current_database()),
     t AS (SELECT id, last_seq FROM {prefix}ticks WHERE id = $1 AND token = $2::uuid AND (SELECT is_home FROM home)),
     newer AS (SELECT id FROM {prefix}ticks WHERE id > $1 ORDER BY id DESC LIMIT 1),
     want AS (SELECT t.id, t.last_seq FROM t
        WHERE (SELECT id FROM newer) IS NULL
          AND ($5
            OR (SELECT xid FROM {prefix}events WHERE xid >= $3::text::xid8 ORDER BY xid LIMIT 1) IS NOT NULL
            OR (SELECT x FROM unnest($4::text[]::xid8[]) x
                WHERE pg_visible_in_snapshot(x, pg_current_snapshot())
                  AND (SELECT e.xid FROM {prefix}events e WHERE e.xid >= x AND e.xid <= x ORDER BY e.xid LIMIT 1) IS NOT NULL
                LIMIT 1) IS NOT NULL)),
     made AS (INSERT INTO {prefix}ticks (id, snap, last_seq, low)
        SELECT id + 1, pg_current_snapshot(), coalesce(pg_sequence_last_value('{prefix}events_seq'), 0), last_seq FROM want
        ON CONFLICT DO NOTHING RETURNING id, token, snap, low),
     paged AS (SELECT snap FROM made WHERE $9 > 0
        AND (SELECT count(*) FROM unnest($4::text[]::xid8[]) x WHERE pg_visible_in_snapshot(x, snap)) = 0)
SELECT NULL AS seq, NULL AS event_id, NULL AS source, NULL AS event_type, NULL AS topic, NULL AS key, NULL AS subject,
       NULL AS schema_version, NULL AS content_type, NULL AS headers, NULL AS occurred_at, NULL AS available_at,
       NULL AS expires_at, clock_timestamp() AS created_at, NULL AS payload, NULL AS payload_bytes,
       (SELECT ARRAY[waiting, dead,
                     (SELECT 1 + count(*) FROM made),
                     (SELECT count(*) FROM (SELECT 1 FROM {prefix}parked p WHERE p.lane = $6 AND p.seq > $10 LIMIT 1) beyond),
                     (SELECT count(*) FROM (
                         SELECT 1 FROM {prefix}events
                         WHERE xid >= $3::text::xid8 AND xid < (SELECT pg_snapshot_xmax(snap) FROM paged) AND seq <= $10
                           AND pg_visible_in_snapshot(xid, (SELECT snap FROM paged)) LIMIT 1) stragglers)]
        FROM {prefix}lanes WHERE lane = $6 AND shard = 0 AND epoch = $7 AND owner_run = $8) AS about,
       (SELECT count(*) FROM t) AS known, (SELECT count(*) FROM want) AS wanted,
       b.id AS tick, b.token::text, b.snap::text, b.low, b.is_made,
       (SELECT count(*) > 0 FROM paged) AS is_paged,
       -- Never below local: a database that commits without waiting would deliver what a crash takes back.
       CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'local', true) END
           AS commits,
       -- How many ids were given since the tick, and how long the look took: what decides about the next one's $5.
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint - $3::text::bigint AS ids_moved,
       (extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.statement_timestamp()) * 1000000)::bigint AS micros,
       coalesce((SELECT is_home FROM home), false) AS is_home,
       (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS home_since,
       -- What this look saw, and the id that it took itself: peek.sql compares with them.
       pg_current_snapshot()::text AS seen, CASE WHEN b.is_made THEN pg_current_xact_id()::text END AS own_id
FROM (SELECT) one LEFT JOIN (
    SELECT id, token, snap, low, true AS is_made FROM made
    UNION ALL
    SELECT id, token, snap, low, false FROM {prefix}ticks WHERE id = (SELECT id FROM newer)) b ON true
UNION ALL
(SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers::text, occurred_at,
        available_at, expires_at, created_at, CASE WHEN octet_length(payload) <= 8192 THEN payload END, octet_length(payload)::bigint,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
 FROM {prefix}events
 WHERE (SELECT count(*) FROM paged) > 0 AND seq > $10 AND pg_visible_in_snapshot(xid, (SELECT snap FROM paged))
   AND NOT pg_visible_in_snapshot(xid, (SELECT $11::pg_snapshot))
 ORDER BY seq LIMIT $9)
