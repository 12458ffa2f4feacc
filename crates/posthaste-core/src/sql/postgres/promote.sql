-- For each key: if nothing holds it any more but a row that waits behind it, that row's turn has come.
-- $5: the lane blocks on dead events.
UPDATE {prefix}parked p SET state = 'retrying', available_at = $4
FROM unnest($3::text[]) AS k (key)
WHERE p.lane = $1 AND p.state = 'behind'
  AND p.seq = (SELECT h.seq FROM {prefix}parked h
               WHERE h.lane = $1 AND h.shard = $2 AND h.key = k.key
                 AND h.key IS NOT NULL AND NOT h.replay AND h.state IN ('retrying', 'behind', 'leased')
               ORDER BY h.seq LIMIT 1)
  AND NOT ($5 AND EXISTS (SELECT 1 FROM {prefix}parked d
               WHERE d.lane = $1 AND d.shard = $2 AND d.key = k.key AND d.seq < p.seq
                 AND d.key IS NOT NULL AND NOT d.replay AND d.state = 'dead'))
