-- A record that somebody begins anew meanwhile has another place by then, and stays.
DELETE FROM {prefix}dedup WHERE state <> 'in_progress' AND ctid = ANY (ARRAY(
    SELECT ctid FROM {prefix}dedup WHERE state <> 'in_progress' AND at < $1 ORDER BY at LIMIT $2))
