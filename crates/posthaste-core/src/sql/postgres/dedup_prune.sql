-- Rows that somebody is about to change stay for the next time.
DELETE FROM {prefix}dedup WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {prefix}dedup WHERE state <> 'in_progress' AND at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))
