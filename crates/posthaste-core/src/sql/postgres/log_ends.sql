-- The place before the oldest event, and the highest number ever given.
SELECT coalesce((SELECT min(seq) - 1 FROM {prefix}events), pg_sequence_last_value('{prefix}events_seq'), 0),
       coalesce(pg_sequence_last_value('{prefix}events_seq'), 0)
