-- Ticks that no lane can need: below all of them. Young ones stay for a lane that is being made; tick 0 is the beginning.
DELETE FROM {prefix}ticks
WHERE id > 0 AND id < (SELECT min(tick_a) FROM {prefix}lanes)
  AND id < (SELECT max(id) FROM {prefix}ticks) AND at < clock_timestamp() - interval '1 hour'
