-- From the index alone: what is handed out and unsettled is passed over without touching its row.
SELECT seq FROM {prefix}parked INDEXED BY {prefix}parked_due
WHERE lane = ?1 AND shard = 0 AND available_at IS NOT NULL AND available_at <= ?2
ORDER BY available_at, seq
