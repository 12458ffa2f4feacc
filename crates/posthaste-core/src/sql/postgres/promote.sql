-- For each key: if nothing holds it any more but a row that waits behind it, that row's turn has come.
-- $4: the lane blocks on dead events.
UPDATE {prefix}parked p SET state = 'retrying', available_at = $3
FROM unnest($2::text[]) AS k (key)
WHERE p.lane = $1 AND p.state = 'behind'
  AND p.seq = (SELECT h.seq FROM {prefix}parked h
               WHERE h.lane = $1 AND h.shard = 0 AND h.key = k.key
                 AND h.key IS NOT NULL AND NOT h.replay AND h.state IN ('retrying', 'behind', 'leased')
               ORDER BY h.seq LIMIT 1)
  AND NOT ($4 AND EXISTS (SELECT 1 FROM {prefix}parked d
               WHERE d.lane = $1 AND d.shard = 0 AND d.key = k.key AND d.seq < p.seq
                 AND d.key IS NOT NULL AND NOT d.replay AND d.state = 'dead'))
