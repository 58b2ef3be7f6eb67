-- keys.lua: the keys of a multimap that are not over. Behind head.lua.
--
-- Returns  the keys
--
-- Work: O(keys); only reads.
local found, gone = {}, {}
for _, key in ipairs(ends and redis.call('ZRANGEBYSCORE', ends, '-inf', now) or {}) do
  gone[key] = true
end
for _, key in ipairs(redis.call('HKEYS', KEYS[1])) do
  if not gone[key] then
    found[#found + 1] = key
  end
end
return found
