UPDATE {prefix}dedup SET state = $5, at = clock_timestamp(), last_error = $6
WHERE consumer = $1 AND event_id = $2 AND source = $3 AND token = $4 AND state = 'in_progress'
