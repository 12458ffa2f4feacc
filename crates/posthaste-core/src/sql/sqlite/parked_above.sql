SELECT EXISTS (SELECT 1 FROM {prefix}parked WHERE lane = ?1 AND seq > ?2)
