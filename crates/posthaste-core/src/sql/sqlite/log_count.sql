SELECT count(*) FROM {prefix}events WHERE seq > ?1 AND seq <= ?2
