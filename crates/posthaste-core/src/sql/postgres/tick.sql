-- Looks whether there is anything new since the tick $1 and, if so, notes what is visible now: one statement,
-- whose commit makes everything that the tick sees durable before it is delivered, and its ids unrepeatable.
-- $1, $2: the newest tick that is known here, and its token. $3, $4: the end of its snapshot, and what was
-- open in it. $5: tick in any case. $6-$9: lane, shard, epoch and run of the lease for which somebody looks,
-- or NULL. A look that finds nothing also says whether that lease holds and whether anything waits in the
-- lane, so that it is all of a claim. No row of t: the server is not the one it was. The new tick's
-- predecessor is visible to this statement, so ticks see more and more. The scalar ORDER BY ... LIMIT 1 forms
-- are needed: EXISTS becomes a sequential scan, and so does xid = x where a few transactions wrote the whole
-- log, as the planner then expects to meet a row of x soon.
-- Every look asks which server this is. A proxy, a pooler or a DNS name can lead to a restored copy from one
-- statement to the next, without any error, and the copy has all ticks with their tokens. Its own transaction
-- ids mean nothing to them: a tick made there would pass over events that nobody has read.
WITH home AS (SELECT m.system_id = c.system_identifier::text AND m.database_oid = d.oid::bigint
                     AND pg_snapshot_xmax(pg_current_snapshot()) >= $3::text::xid8 AS is_home
              FROM {prefix}meta m, pg_control_system() c, pg_database d
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
        ON CONFLICT DO NOTHING RETURNING id, token, snap, low)
SELECT (SELECT count(*) FROM t) AS known, (SELECT count(*) FROM want) AS wanted,
       b.id, b.token::text, b.snap::text, b.low, b.is_made,
       -- Never below local: a database that commits without waiting would deliver what a crash takes back.
       CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'local', true) END,
       -- How many ids were given since the tick, and how long the look took: what decides about the next one's $5.
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint - $3::text::bigint,
       (extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.statement_timestamp()) * 1000000)::bigint,
       (SELECT waiting > 0 FROM {prefix}lanes WHERE lane = $6 AND shard = $7 AND epoch = $8 AND owner_run = $9),
       coalesce((SELECT is_home FROM home), false)
FROM (SELECT) one LEFT JOIN (
    SELECT id, token, snap, low, true AS is_made FROM made
    UNION ALL
    SELECT id, token, snap, low, false FROM {prefix}ticks WHERE id = (SELECT id FROM newer)) b ON true
