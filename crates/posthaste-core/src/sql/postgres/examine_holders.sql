-- What keeps vacuum from removing dead rows, or the server from removing its log: transactions that are open for long, by time
-- where this user may see it and else by how many ids were given since, prepared ones, and slots that nobody reads.
-- $1: for how many seconds. $2: for how many ids.
SELECT 'transaction' AS what, a.pid::text AS name,
       extract(epoch FROM clock_timestamp() - a.xact_start)::bigint AS seconds,
       format('SELECT pg_terminate_backend(%s)', a.pid) AS mend
FROM pg_catalog.pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
  AND (a.xact_start < clock_timestamp() - $1 * interval '1 second' OR age(a.backend_xmin) > $2)
UNION ALL
SELECT 'prepared', p.gid, extract(epoch FROM clock_timestamp() - p.prepared)::bigint, format('ROLLBACK PREPARED %L', p.gid)
FROM pg_catalog.pg_prepared_xacts p
WHERE p.database = current_database() AND p.prepared < clock_timestamp() - $1 * interval '1 second'
UNION ALL
SELECT 'slot', s.slot_name::text, NULL, format('SELECT pg_drop_replication_slot(%L)', s.slot_name)
FROM pg_catalog.pg_replication_slots s
WHERE NOT s.active AND NOT s.temporary AND (s.restart_lsn IS NOT NULL OR s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL)
LIMIT 20
