-- Makes this consumer the one that reads the stream, unless another one is, and takes over everything that others have: they do not
-- read it any more. Answers each entry with how often it was handed out, whether there is more, and whether this consumer reads.
-- KEYS: the stream, who reads it
-- ARGV: group, consumer, ms without a sign of life, how many at most
local reader = redis.call('GET', KEYS[2])
if reader and reader ~= ARGV[2] then return {{}, '0-0', 0} end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
local taken, most, from = {}, tonumber(ARGV[4]), '-'
for _ = 1, 100 do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], from, '+', 100)
  for _, entry in ipairs(pending) do
    if entry[2] ~= ARGV[2] then
      if #taken >= most then return {taken, entry[1], 1} end
      local claimed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, entry[1])
      if claimed[1] and claimed[1][2] then
        taken[#taken + 1] = {entry[1], claimed[1][2], entry[4] + 1}
      else
        -- It was removed from the stream since.
        redis.call('XACK', KEYS[1], ARGV[1], entry[1])
      end
    end
    from = '(' .. entry[1]
  end
  if #pending < 100 then break end
end
return {taken, '0-0', 1}
