-- Ends a record that is in progress with this token, and answers whether it was.
-- KEYS: the record, the set of ended ones
-- ARGV: token, state, last error, ms to keep it, now in µs or nothing
local found = redis.call('HMGET', KEYS[1], 'state', 'token')
if found[1] ~= 'in_progress' or found[2] ~= ARGV[1] then return 0 end
local now = tonumber(ARGV[5])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'at', string.format('%.0f', now))
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'last_error', ARGV[3]) end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[2], string.format('%.0f', now), KEYS[1])
-- What expired by itself is in the set no longer than it was kept.
local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.0f', now - ARGV[4] * 1000), 'LIMIT', 0, 10)
if #old > 0 then redis.call('ZREM', KEYS[2], unpack(old)) end
return 1
