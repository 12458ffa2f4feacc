-- Tables whose rows change often: whether somebody keeps autovacuum from them, and how many dead rows they have. $1: their names.
SELECT c.oid::regclass::text AS name, coalesce(s.n_live_tup, 0) AS live, coalesce(s.n_dead_tup, 0) AS dead,
       coalesce((SELECT NOT o.option_value::boolean FROM pg_catalog.pg_options_to_table(c.reloptions) o
                 WHERE o.option_name = 'autovacuum_enabled'), false) AS is_off
FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = c.oid
WHERE c.oid = ANY ($1::text[]::regclass[])
ORDER BY c.relname
