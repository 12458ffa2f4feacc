UPDATE {prefix}events SET payload = NULL WHERE seq = ANY ($1) AND payload IS NOT NULL
