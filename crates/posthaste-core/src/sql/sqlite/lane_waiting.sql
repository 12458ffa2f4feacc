-- What waits in a lane: of the first ?2 that are retried how many there are and how many of them have failed, and when the oldest was taken
-- in whose time has come.
SELECT count(*), count(first_failed_at),
       (SELECT created_at FROM {prefix}events WHERE seq = (SELECT min(seq) FROM (
            SELECT min(seq) AS seq FROM {prefix}parked INDEXED BY {prefix}parked_state WHERE lane = ?1 AND state = 'retrying'
            UNION ALL SELECT min(seq) FROM {prefix}parked INDEXED BY {prefix}parked_state WHERE lane = ?1 AND state = 'behind'
            UNION ALL SELECT min(seq) FROM {prefix}parked INDEXED BY {prefix}parked_state WHERE lane = ?1 AND state = 'leased')))
FROM (SELECT first_failed_at FROM {prefix}parked INDEXED BY {prefix}parked_state WHERE lane = ?1 AND state = 'retrying' LIMIT ?2)
