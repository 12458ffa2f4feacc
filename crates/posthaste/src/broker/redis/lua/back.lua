-- Gives entries of a consumer back: they are nobody's, and look as if nobody had cared for them for ever, so that whoever looks
-- next takes them over. What another consumer has by now stays there.
-- KEYS: the stream
-- ARGV: group, consumer, nobody, then ids; without any, all that the consumer has
local ids = {}
if #ARGV > 3 then
  for i = 4, #ARGV do
    if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) > 0 then ids[#ids + 1] = ARGV[i] end
  end
else
  for _, entry in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1000, ARGV[2])) do ids[#ids + 1] = entry[1] end
end
for _, id in ipairs(ids) do
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, id, 'IDLE', 1000000000, 'JUSTID')
end
return #ids
