UPDATE {prefix}events SET payload = NULL WHERE seq = ?1 AND payload IS NOT NULL
