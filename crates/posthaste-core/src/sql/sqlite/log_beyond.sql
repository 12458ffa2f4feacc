SELECT EXISTS (SELECT 1 FROM {prefix}events WHERE seq > ?1)
