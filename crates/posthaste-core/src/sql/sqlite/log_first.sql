SELECT min(seq) FROM {prefix}events
