-- At an acquisition: whoever had these in flight is gone.
UPDATE {prefix}parked SET state = 'retrying', available_at = ?3 WHERE lane = ?1 AND shard = ?2 AND state = 'leased'
