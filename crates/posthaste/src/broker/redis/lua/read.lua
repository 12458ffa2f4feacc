-- Reads new entries, if this consumer is the one that reads the stream. Answers them, the last id of the stream, and whether it is.
-- KEYS: the stream, who reads it
-- ARGV: group, consumer, how many at most
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return {{}, '0-0', 0} end
local found = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[1], '>')
local entries = found and found[1] and found[1][2] or {}
local info, last = redis.call('XINFO', 'STREAM', KEYS[1]), '0-0'
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then last = info[i + 1] end
end
return {entries, last, 1}
