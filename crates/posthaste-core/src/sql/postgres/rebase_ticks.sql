-- The chain begins anew at a tick that sees the id 3 and nothing else. low 0: everything is read by its number.
WITH new AS (
    INSERT INTO {prefix}ticks (id, snap, last_seq, low)
    SELECT (SELECT max(id) FROM {prefix}ticks) + 1, '4:4:',
           coalesce((SELECT min(seq) - 1 FROM {prefix}events WHERE xid <> '3'), pg_sequence_last_value('{prefix}events_seq'), 0), 0
    RETURNING id),
old AS (DELETE FROM {prefix}ticks WHERE id > 0)
SELECT id FROM new
