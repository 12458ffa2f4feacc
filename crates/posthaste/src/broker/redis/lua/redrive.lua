-- Takes a dead letter and puts it into the group's own stream. The answer is 0 if somebody else was faster. What cannot be put there
-- stays a dead letter: what a script has done before it fails is done.
-- KEYS: the dead letters, the group's own stream
-- ARGV: id, the entry
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return 0 end
redis.call('XADD', KEYS[2], '*', 'entry', ARGV[2])
return redis.call('XDEL', KEYS[1], ARGV[1])
