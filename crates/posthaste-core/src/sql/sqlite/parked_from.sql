SELECT seq FROM {prefix}parked WHERE lane = ?1 AND seq > ?2 ORDER BY seq
