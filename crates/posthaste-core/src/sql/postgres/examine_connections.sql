-- How many connections there are and may be: on the server, of this database, of this user. Everybody may see these numbers.
SELECT (SELECT sum(numbackends) FROM pg_catalog.pg_stat_database)::bigint AS used,
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint AS room,
       CASE WHEN d.datconnlimit >= 0 AND NOT u.rolsuper THEN d.datconnlimit::bigint END AS database_limit,
       format('ALTER DATABASE %I CONNECTION LIMIT -1', d.datname) AS database_mend,
       CASE WHEN u.rolconnlimit >= 0 AND NOT u.rolsuper THEN u.rolconnlimit::bigint END AS user_limit,
       format('ALTER ROLE %I CONNECTION LIMIT -1', u.rolname) AS user_mend
FROM pg_catalog.pg_database d, pg_catalog.pg_roles u
WHERE d.datname = current_database() AND u.rolname = session_user
