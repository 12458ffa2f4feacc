-- One statement: of two who begin at once, the second finds the first. Nothing comes back if somebody else has it.
INSERT INTO {prefix}dedup AS kept (consumer, event_id, source, state, token, at)
VALUES (?1, ?2, ?3, 'in_progress', ?4, ?5)
ON CONFLICT DO UPDATE SET
    taken_over = kept.state = 'in_progress', state = 'in_progress', token = excluded.token, at = excluded.at, last_error = NULL
WHERE kept.state = 'failed' OR (kept.state = 'in_progress' AND kept.at <= ?6)
RETURNING taken_over
