-- inspect.lua: who holds a lock, and for how long.
--
-- KEYS[1]  lock  hash; its fields are the holders
-- ARGV[1]  most  holders to return; where there are more, a random choice of them
-- Returns  {left, n, holder, count, holder, count, …} as text; left is the PTTL, -2 when free; n is the number of all fields; the
--          count is empty where the value is too long for one
--
-- Work: O(most), writes nothing. Sent twice, it answers twice.
local n, most = redis.call('HLEN', KEYS[1]), tonumber(ARGV[1])
local out = {tostring(redis.call('PTTL', KEYS[1])), tostring(n)}
local holders
if n <= most then
  holders = redis.call('HKEYS', KEYS[1])
else
  -- A user who may not choose some, or a server that can not, leaves their number only.
  holders = redis.pcall('HRANDFIELD', KEYS[1], ARGV[1])
end
for _, holder in ipairs(holders) do
  -- Who may not ask for the length reads the value, whatever its length.
  local length = redis.pcall('HSTRLEN', KEYS[1], holder)
  local is_long = type(length) == 'number' and length > 20
  out[#out + 1] = holder
  out[#out + 1] = not is_long and redis.call('HGET', KEYS[1], holder) or ''
end
return out
