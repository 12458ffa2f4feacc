-- Begins a record, unless it is in progress or was processed. Answers {what was found, age in µs}; the new token is in it when
-- what was found is nothing, failed, or abandoned.
-- KEYS: the record, the set of ended ones
-- ARGV: token, abandoned after µs, ms to keep it, now in µs or nothing
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local found = redis.call('HMGET', KEYS[1], 'state', 'at')
local state, age = found[1] or 'nothing', now - (tonumber(found[2]) or now)
if state == 'processed' then return {state, 0} end
if state == 'in_progress' then
  if age < tonumber(ARGV[2]) then return {state, string.format('%.0f', age)} end
  state = 'abandoned'
end
redis.call('HSET', KEYS[1], 'state', 'in_progress', 'token', ARGV[1], 'at', string.format('%.0f', now))
redis.call('HDEL', KEYS[1], 'last_error')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('ZREM', KEYS[2], KEYS[1])
return {state, 0}
