-- The first event of the key that is parked and not dead: what comes after it in the log waits.
SELECT min(seq) FROM {prefix}parked INDEXED BY {prefix}parked_key
WHERE lane = ?1 AND shard = 0 AND key = ?2
  AND key IS NOT NULL AND replay = 0 AND state IN ('retrying', 'behind', 'leased')
