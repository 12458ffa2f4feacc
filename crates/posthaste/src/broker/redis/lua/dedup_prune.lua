-- Forgets records that ended longer ago than this, the oldest first, and answers how many.
-- KEYS: the set of ended ones
-- ARGV: µs, how many at most, now in µs or nothing
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local pruned = 0
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - ARGV[1]), 'LIMIT', 0, ARGV[2])
for _, record in ipairs(old) do
  pruned = pruned + redis.call('DEL', record)
  redis.call('ZREM', KEYS[1], record)
end
return pruned
