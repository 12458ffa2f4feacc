INSERT INTO {prefix}keys (name, hash, created_at) VALUES (?1, ?2, ?3)
