SELECT count(*) FROM {prefix}inbox WHERE handled_at < $1
