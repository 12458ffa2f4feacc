-- The database is at home here, and its lanes may be driven.
WITH here AS (
    UPDATE {prefix}meta m SET system_id = c.system_identifier::text, database_oid = d.oid::bigint
    FROM pg_control_system() c, pg_database d WHERE m.id = 1 AND d.datname = current_database())
UPDATE {prefix}lanes SET state = 'active', reason = NULL, updated_at = clock_timestamp()
WHERE state = 'error' AND reason LIKE 'restored%'
