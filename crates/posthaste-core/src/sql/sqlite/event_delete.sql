DELETE FROM {prefix}events WHERE seq = ?1
