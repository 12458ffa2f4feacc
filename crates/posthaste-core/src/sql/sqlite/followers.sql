SELECT seq, state FROM {prefix}parked INDEXED BY {prefix}parked_key
WHERE lane = ?1 AND shard = 0 AND key = ?2 AND seq > ?3
  AND key IS NOT NULL AND replay = 0 AND state IN ('retrying', 'behind', 'leased')
ORDER BY seq
