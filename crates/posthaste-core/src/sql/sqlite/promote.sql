-- If nothing holds the key any more but a row that waits behind it, that row's turn has come.
-- ?4: the lane blocks on dead events.
UPDATE {prefix}parked SET state = 'retrying', available_at = ?3
WHERE lane = ?1 AND state = 'behind'
  AND seq = (SELECT seq FROM {prefix}parked INDEXED BY {prefix}parked_key
             WHERE lane = ?1 AND shard = 0 AND key = ?2
               AND key IS NOT NULL AND replay = 0 AND state IN ('retrying', 'behind', 'leased')
             ORDER BY seq LIMIT 1)
  AND NOT (?4 AND EXISTS (SELECT 1 FROM {prefix}parked d INDEXED BY {prefix}parked_dead_key
             WHERE d.lane = ?1 AND d.shard = 0 AND d.key = ?2 AND d.seq < {prefix}parked.seq
               AND d.key IS NOT NULL AND d.replay = 0 AND d.state = 'dead'))
