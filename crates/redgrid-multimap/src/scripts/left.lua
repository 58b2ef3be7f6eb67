-- left.lua: how long a key of a multimap lives. Behind head.lua.
--
-- KEYS[2]  values of the key, a set or a list
-- ARGV[2]  key
-- Returns  milliseconds, -1 where it has no end, -2 where it is not there
--
-- Work: O(1); only reads.
local key = ARGV[2]
if over(key) or redis.call('HEXISTS', KEYS[1], key) == 0 or redis.call('EXISTS', KEYS[2]) == 0 then
  return -2
end
local at = ends and redis.call('ZSCORE', ends, key)
local least = left(key)
for _, other in ipairs({redis.call('PTTL', KEYS[2]), at and tonumber(at) - now or -1}) do
  if other >= 0 and (least < 0 or other < least) then
    least = other
  end
end
return least
