-- keys.lua: the keys of a multimap that are not over. Behind head.lua.
--
-- Returns  the keys
--
-- Work: O(keys * log keys); only reads.
local found = {}
for _, key in ipairs(redis.call('HKEYS', KEYS[1])) do
  if not over(key) then
    found[#found + 1] = key
  end
end
return found
