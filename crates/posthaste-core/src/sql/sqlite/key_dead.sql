-- Whether an earlier event of the key is dead; asked only by lanes that block on that.
SELECT EXISTS (SELECT 1 FROM {prefix}parked
WHERE lane = ?1 AND shard = ?2 AND key = ?3 AND seq < ?4
  AND key IS NOT NULL AND replay = 0 AND state = 'dead')
