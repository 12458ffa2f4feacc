SELECT seq, state FROM {prefix}parked INDEXED BY {prefix}parked_key
WHERE lane = ?1 AND shard = ?2 AND key = ?3 AND seq > ?4
  AND key IS NOT NULL AND replay = 0 AND state IN ('retrying', 'behind', 'leased')
ORDER BY seq
