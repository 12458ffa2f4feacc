-- promote.sql for every key of the lane, at an acquisition. The recursion hops from key to key in the index, so that
-- it costs the number of keys and not the number of rows.
WITH RECURSIVE keys (key) AS (
    SELECT min(key) FROM {prefix}parked INDEXED BY {prefix}parked_key
    WHERE lane = ?1 AND shard = 0
      AND key IS NOT NULL AND replay = 0 AND state IN ('retrying', 'behind', 'leased')
    UNION ALL
    SELECT (SELECT min(p.key) FROM {prefix}parked p INDEXED BY {prefix}parked_key
            WHERE p.lane = ?1 AND p.shard = 0 AND p.key > keys.key
              AND p.key IS NOT NULL AND p.replay = 0 AND p.state IN ('retrying', 'behind', 'leased'))
    FROM keys WHERE keys.key IS NOT NULL
)
UPDATE {prefix}parked SET state = 'retrying', available_at = ?2
WHERE lane = ?1 AND state = 'behind'
  AND seq IN (SELECT (SELECT min(h.seq) FROM {prefix}parked h INDEXED BY {prefix}parked_key
                      WHERE h.lane = ?1 AND h.shard = 0 AND h.key = keys.key
                        AND h.key IS NOT NULL AND h.replay = 0 AND h.state IN ('retrying', 'behind', 'leased'))
              FROM keys WHERE keys.key IS NOT NULL)
  AND NOT (?3 AND EXISTS (SELECT 1 FROM {prefix}parked d INDEXED BY {prefix}parked_dead_key
             WHERE d.lane = ?1 AND d.shard = 0 AND d.key = {prefix}parked.key AND d.seq < {prefix}parked.seq
               AND d.key IS NOT NULL AND d.replay = 0 AND d.state = 'dead'))
