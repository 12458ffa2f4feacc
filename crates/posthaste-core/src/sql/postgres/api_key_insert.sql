INSERT INTO {prefix}keys (name, hash) VALUES ($1, $2)
