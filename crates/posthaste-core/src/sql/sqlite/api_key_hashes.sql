SELECT hash FROM {prefix}keys ORDER BY created_at DESC, name LIMIT ?1
