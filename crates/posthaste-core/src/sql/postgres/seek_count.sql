-- How many events lie between a lane's place and another: passed by one of them and not by the other. Each place is a
-- snapshot, a second one or NULL, and the number up to which the second counts.
SELECT count(*) FROM {prefix}events e
WHERE (pg_visible_in_snapshot(e.xid, (SELECT $1::pg_snapshot))
       OR ($2::text IS NOT NULL AND e.seq <= $3 AND pg_visible_in_snapshot(e.xid, (SELECT $2::pg_snapshot))))
   <> (pg_visible_in_snapshot(e.xid, (SELECT $4::pg_snapshot))
       OR ($5::text IS NOT NULL AND e.seq <= $6 AND pg_visible_in_snapshot(e.xid, (SELECT $5::pg_snapshot))))
