-- Says that the consumer that reads a stream lives. The answer is 0 if another one reads it by now.
-- KEYS: who reads it
-- ARGV: consumer, ms without a sign of life
local reader = redis.call('GET', KEYS[1])
if reader and reader ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
