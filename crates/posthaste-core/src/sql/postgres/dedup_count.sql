SELECT count(*) FROM {prefix}dedup WHERE state <> 'in_progress' AND at < $1
