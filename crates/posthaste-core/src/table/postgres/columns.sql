-- The columns of a table by its quoted name, with what they hold and what this user may do; nothing if there is no such table.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), t.typname::text, t.typtype::text, NOT a.attnotnull,
       CASE WHEN t.typname IN ('varchar', 'bpchar') AND a.atttypmod > 4 THEN a.atttypmod - 4 END,
       c.relkind::text,
       has_column_privilege(c.oid, a.attnum, 'SELECT'), has_column_privilege(c.oid, a.attnum, 'UPDATE')
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE c.oid = to_regclass($1)
