-- Which transactions have ended: what a look compares with what the last one saw. No table is read, so
-- nothing can hold it up, and it costs the server a fourth of a look.
SELECT pg_current_snapshot()::text
