SELECT seq FROM {prefix}events WHERE event_id = ?1
