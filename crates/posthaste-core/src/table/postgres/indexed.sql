-- Whether rows with each of these values in a column are found by an index: on that column, or on that part of the table.
SELECT EXISTS (
    SELECT 1 FROM pg_index AS i
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attname = $2::text
    WHERE i.indrelid = $1::text::regclass AND i.indisvalid
      AND CASE WHEN i.indpred IS NULL THEN i.indkey[0] = a.attnum
               ELSE pg_get_expr(i.indpred, i.indrelid) !~ '<>|NOT'
                    AND position(quote_literal(v.value) in pg_get_expr(i.indpred, i.indrelid)) > 0 END)
FROM unnest($3::text[]) WITH ORDINALITY AS v (value, n) ORDER BY v.n
