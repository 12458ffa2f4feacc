-- A copy without its sequence would give numbers again.
SELECT setval('{prefix}events_seq', last.seq)
FROM (SELECT greatest((SELECT max(seq) FROM {prefix}events), (SELECT max(last_seq) FROM {prefix}ticks)) AS seq) last
WHERE last.seq > coalesce(pg_sequence_last_value('{prefix}events_seq'), 0)
