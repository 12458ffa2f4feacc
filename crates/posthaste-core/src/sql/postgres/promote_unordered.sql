-- The lane does not keep the order of keys any more: nobody is behind anybody.
UPDATE {prefix}parked SET state = 'retrying', available_at = clock_timestamp() WHERE lane = $1 AND shard = 0 AND state = 'behind'
