-- Which share of a table's rows has which value in a column, as the last ANALYZE saw it.
WITH seen AS (
    SELECT s.null_frac, s.most_common_vals::text::text[] AS vals, s.most_common_freqs AS freqs
    FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_stats AS s ON s.schemaname = n.nspname AND s.tablename = c.relname
    WHERE c.oid = $1::text::regclass AND s.attname = $2::text
    ORDER BY s.inherited DESC LIMIT 1
)
SELECT NULL::text, null_frac::float8 FROM seen
UNION ALL
SELECT m.val, m.freq::float8 FROM seen, unnest(seen.vals, seen.freqs) AS m (val, freq)
