-- The highest number that was ever given, also when retention has removed its event.
SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{prefix}events'), 0),
           coalesce((SELECT max(seq) FROM {prefix}events), 0))
