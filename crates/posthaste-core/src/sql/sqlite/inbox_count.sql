SELECT count(*) FROM {prefix}inbox INDEXED BY {prefix}inbox_age WHERE handled_at < ?1
