SELECT count(*) FROM {prefix}dedup INDEXED BY {prefix}dedup_age WHERE state <> 'in_progress' AND at < ?1
