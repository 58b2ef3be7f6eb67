-- compare_and_remove.lua: removes a key if its value is the expected one.
--
-- KEYS[1]  map
-- ARGV[1]  1 to return the current value if it is not the expected one
-- ARGV[2]  key
-- ARGV[3]  expected value
-- Returns  1 removed; 0 not removed, or, with ARGV[1], a list of the current value or nil
--
-- Work: O(1) plus the sizes of the values. Not to be sent twice: see compare_and_set.lua.
local current = redis.call('HGET', KEYS[1], ARGV[2])
if current ~= ARGV[3] then
  return ARGV[1] == '1' and {current} or 0
end
return redis.call('HDEL', KEYS[1], ARGV[2])
