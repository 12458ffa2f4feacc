DELETE FROM {prefix}inbox WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {prefix}inbox WHERE handled_at < $1 ORDER BY handled_at LIMIT $2))
