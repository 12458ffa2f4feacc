-- One statement: of two who begin at once, the second waits for the first and then finds it. A row that came between the
-- snapshot and the conflict is not in the second part; whoever gets nothing knows that somebody has just begun.
WITH begun AS (
    INSERT INTO {prefix}dedup AS kept (consumer, event_id, source, state, token, at)
    VALUES ($1, $2, $3, 'in_progress', $4, clock_timestamp())
    ON CONFLICT (consumer, event_id, source) DO UPDATE SET
        taken_over = kept.state = 'in_progress', state = 'in_progress', token = excluded.token, at = excluded.at, last_error = NULL
    WHERE kept.state = 'failed'
       OR (kept.state = 'in_progress' AND kept.at <= clock_timestamp() - $5 * interval '1 microsecond')
    RETURNING taken_over)
SELECT 'begun', taken_over, 0::bigint FROM begun
UNION ALL
SELECT state, false, (extract(epoch FROM clock_timestamp() - at) * 1000000)::bigint
FROM {prefix}dedup
WHERE consumer = $1 AND event_id = $2 AND source = $3 AND NOT EXISTS (SELECT FROM begun)
