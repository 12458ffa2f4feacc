-- The lane does not keep the order of keys any more: nobody is behind anybody.
UPDATE {prefix}parked INDEXED BY {prefix}parked_key SET state = 'retrying', available_at = ?2
WHERE lane = ?1 AND shard = 0 AND state = 'behind'
  AND key IS NOT NULL AND replay = 0 AND state IN ('retrying', 'behind', 'leased')
