-- The identity of these tables. A copy on another server, in another database or in another schema has
-- another one.
SELECT format('postgres:%s:%s:%s', c.system_identifier, d.oid, to_regclass('{prefix}meta')::oid)
FROM pg_control_system() c, pg_database d
WHERE d.datname = current_database() AND to_regclass('{prefix}meta') IS NOT NULL
