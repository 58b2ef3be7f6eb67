-- leases.lua: return the remaining lifetimes of keys.
--
-- KEYS     keys   the leases of readers, at most 1,000
-- Returns  {left, left, …}  the PTTL of each key, in their order
--
-- Work: O(n) for n keys, writes nothing. Sent twice, it returns twice.
local out = {}
for _, key in ipairs(KEYS) do
  out[#out + 1] = redis.call('PTTL', key)
end
return out
