-- memory.lua: total memory of keys in bytes.
--
-- KEYS     some hundreds at most
-- Returns  bytes, by the server's estimate
--
-- Work: O(KEYS); only reads.
local sum = 0
for i = 1, #KEYS do
  sum = sum + (redis.call('MEMORY', 'USAGE', KEYS[i]) or 0)
end
return sum
