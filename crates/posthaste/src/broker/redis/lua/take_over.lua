-- Takes over what consumers have had for too long without a sign of life, and answers each entry with how often it was handed out.
-- KEYS: the stream
-- ARGV: group, consumer, ms without a sign of life, how many at most
local cursor, taken, most = '0-0', {}, tonumber(ARGV[4])
for _ = 1, 100 do
  local found = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], cursor, 'COUNT', most - #taken)
  for _, entry in ipairs(found[2]) do
    if entry and entry[2] then
      local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
      taken[#taken + 1] = {entry[1], entry[2], pending[1] and pending[1][4] or 1}
    end
  end
  cursor = found[1]
  if cursor == '0-0' or #taken >= most then break end
end
return {taken, cursor, 1}
