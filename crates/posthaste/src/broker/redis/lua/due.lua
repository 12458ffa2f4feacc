-- Moves what is due into the group's own stream, and answers in how many ms the next one is; -1 if nothing waits.
-- KEYS: the set of what waits, the group's own stream
-- ARGV: how many at most
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  redis.call('XADD', KEYS[2], '*', 'entry', entry)
  redis.call('ZREM', KEYS[1], entry)
end
local next = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if #next == 0 then return -1 end
return math.max(0, math.ceil(next[2] - now))
