-- keys.lua: keys of a multimap that have not expired. After key_prelude.lua.
--
-- Returns  the keys
--
-- Work: O(keys); only reads.
local found, expired = {}, {}
for _, key in ipairs(expiries and redis.call('ZRANGEBYSCORE', expiries, '-inf', now) or {}) do
  expired[key] = true
end
for _, key in ipairs(redis.call('HKEYS', KEYS[1])) do
  if not expired[key] then
    found[#found + 1] = key
  end
end
return found
