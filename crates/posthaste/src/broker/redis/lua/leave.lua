-- Removes a consumer that has nothing any more.
-- KEYS: the stream
-- ARGV: group, consumer
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
return 1
