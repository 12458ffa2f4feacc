-- The database is not where these lanes were driven: they say so until somebody rebases them.
UPDATE {prefix}lanes SET state = 'error', reason = $1, updated_at = clock_timestamp() WHERE state IN ('active', 'unavailable')
