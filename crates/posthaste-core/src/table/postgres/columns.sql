-- The columns of a table by its quoted name ($1), with what they hold, what this user may do, and whether a row that is in one
-- of two states ($2, $3) is found by an index that begins with them; nothing if there is no such table.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), t.typname::text, t.typtype::text, NOT a.attnotnull,
       CASE WHEN t.typname IN ('varchar', 'bpchar') AND a.atttypmod > 4 THEN a.atttypmod - 4 END,
       c.relkind::text,
       has_column_privilege(c.oid, a.attnum, 'SELECT'), has_column_privilege(c.oid, a.attnum, 'UPDATE'),
       EXISTS (SELECT FROM pg_catalog.pg_index i
               WHERE i.indrelid = c.oid AND i.indisvalid AND i.indkey[0] = a.attnum
                 AND (i.indpred IS NULL OR strpos(pg_get_expr(i.indpred, c.oid), $2) > 0
                                       AND strpos(pg_get_expr(i.indpred, c.oid), $3) > 0))
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE c.oid = to_regclass($1)
