-- One trial of an event is over: its process lives.
-- KEYS: the trials
-- ARGV: the event's field
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) <= 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1
