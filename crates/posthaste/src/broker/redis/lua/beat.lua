-- Says that a consumer lives: what it has was touched now. What was taken over by another one stays there.
-- KEYS: the stream
-- ARGV: group, consumer, how many it has at most
local ids = {}
for _, entry in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[3], ARGV[2])) do ids[#ids + 1] = entry[1] end
for _, id in ipairs(ids) do redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'JUSTID') end
return #ids
