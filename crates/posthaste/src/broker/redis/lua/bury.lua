-- Takes an entry from its consumer and puts it to the dead letters. Nothing happens, and the answer is 0, if another consumer
-- has it by now.
-- KEYS: the stream it is in, the dead letters, the trials
-- ARGV: group, consumer, id, whether the stream is the group's own, its field among the trials, then fields and values
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2]) == 0 then return 0 end
local add = {'XADD', KEYS[2], '*'}
for i = 6, #ARGV do add[#add + 1] = ARGV[i] end
redis.call(unpack(add))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
if ARGV[4] == '1' then redis.call('XDEL', KEYS[1], ARGV[3]) end
redis.call('HDEL', KEYS[3], ARGV[5])
return 1
