-- The first dead event of the key after a place: in a lane that blocks on dead events nothing beyond it may go.
SELECT min(seq) FROM {prefix}parked INDEXED BY {prefix}parked_dead_key
WHERE lane = ?1 AND shard = 0 AND key = ?2 AND seq > ?3
  AND key IS NOT NULL AND replay = 0 AND state = 'dead'
