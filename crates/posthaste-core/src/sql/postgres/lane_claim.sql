-- The lane as a claim sees it, if its lease still holds: what is parked, the time, and which of the ticks it reads between
-- are there in this very snapshot with the tokens it knows ($5, $6). A page from a server without them would be short.
SELECT waiting > 0, dead > 0, clock_timestamp(),
       (SELECT count(*) FROM {prefix}ticks t JOIN unnest($5::bigint[], $6::text[]) AS k (id, token)
        ON t.id = k.id AND t.token = k.token::uuid)
FROM {prefix}lanes WHERE lane = $1 AND shard = $2 AND epoch = $3 AND owner_run = $4
