-- The columns of a table, with what they hold and what this user may do; nothing if there is no such table, or nothing of it
-- that this user may see.
SELECT c.column_name, CAST(c.column_type AS CHAR), c.data_type, c.is_nullable = 'YES',
       CAST(c.character_maximum_length AS SIGNED), c.character_set_name, c.collation_name,
       FIND_IN_SET('select', c.privileges) > 0, FIND_IN_SET('update', c.privileges) > 0, t.engine
FROM information_schema.columns AS c
JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = COALESCE(?, DATABASE()) AND c.table_name = ?
ORDER BY c.ordinal_position
