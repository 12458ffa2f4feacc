-- The first event of the key that is dead; asked only by lanes that block on that.
SELECT min(seq) FROM {prefix}parked INDEXED BY {prefix}parked_dead_key
WHERE lane = ?1 AND shard = 0 AND key = ?2
  AND key IS NOT NULL AND replay = 0 AND state = 'dead'
