-- Takes an entry from its consumer and sets it aside: until its time, or at once into the group's own stream.
-- Nothing happens, and the answer is 0, if another consumer has it by now.
-- KEYS: the stream it is in, the set of what waits, the group's own stream, its trials
-- ARGV: group, consumer, id, whether the stream is the group's own, pause in ms, the entry, its field among the trials
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2]) == 0 then return 0 end
local pause = tonumber(ARGV[5])
if pause > 0 then
  local now = redis.call('TIME')
  redis.call('ZADD', KEYS[2], now[1] * 1000 + math.ceil(now[2] / 1000) + pause, ARGV[6])
else
  redis.call('XADD', KEYS[3], '*', 'entry', ARGV[6])
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
if ARGV[4] == '1' then redis.call('XDEL', KEYS[1], ARGV[3]) end
redis.call('HDEL', KEYS[4], ARGV[7])
return 1
