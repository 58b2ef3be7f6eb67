-- inspect.lua: return the holders of a lock, and its remaining lease.
--
-- KEYS[1]  lock  hash; its fields are the holders
-- ARGV[1]  most  maximum number of holders; if there are more, a random selection
-- Returns  {left, n, holder, count, holder, count, …} as text; `left` is the PTTL, -2 if free; `n`
--          is the number of all fields; `count` is empty if the value is too long to be a count
--
-- Work: O(most), writes nothing. Sent twice, it returns twice.
local n, most = redis.call('HLEN', KEYS[1]), tonumber(ARGV[1])
local out = {tostring(redis.call('PTTL', KEYS[1])), tostring(n)}
local holders
if n <= most then
  holders = redis.call('HKEYS', KEYS[1])
else
  -- Without HRANDFIELD, or the permission for it, only the number of fields is returned.
  holders = redis.pcall('HRANDFIELD', KEYS[1], ARGV[1])
end
for _, holder in ipairs(holders) do
  -- Without the permission for HSTRLEN, the value is read whatever its length.
  local length = redis.pcall('HSTRLEN', KEYS[1], holder)
  local is_long = type(length) == 'number' and length > 20
  out[#out + 1] = holder
  out[#out + 1] = not is_long and redis.call('HGET', KEYS[1], holder) or ''
end
return out
