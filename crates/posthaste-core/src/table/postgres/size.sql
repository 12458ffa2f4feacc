-- How many bytes the rows of a table take, and about how many rows those are. A table with partitions has both in them.
SELECT coalesce(sum(pg_relation_size(p.relid)), 0)::int8,
       coalesce(sum(CASE WHEN c.reltuples >= 0 AND c.relpages > 0 THEN c.reltuples::float8 / c.relpages ELSE 20 END
                    * pg_relation_size(p.relid) / current_setting('block_size')::int8), 0)::int8
FROM (SELECT $1::text::regclass AS relid
      UNION
      SELECT relid FROM pg_partition_tree($1::text::regclass) WHERE isleaf) AS p
JOIN pg_class AS c ON c.oid = p.relid
