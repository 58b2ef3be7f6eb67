-- ttl.lua: the lifetimes of many keys, without touching them.
--
-- KEYS     any number of keys of one slot
-- Returns  the PTTL of each key: milliseconds, -1 without a lifetime, -2 if absent, -3 if
--          unreadable
--
-- Work: O(keys), writes nothing. Sent twice, it answers twice.
local out = {}
for i, key in ipairs(KEYS) do
  local left = redis.pcall('PTTL', key)
  if type(left) == 'table' then left = -3 end
  out[i] = left
end
return out
