-- compare_and_delete.lua: deletes a value if it is the expected one.
--
-- KEYS[1]  value
-- ARGV[1]  1 to return the current value if it is not the expected one
-- ARGV[2]  the expected value
-- Returns  1 it is deleted; otherwise 0 or, with ARGV[1], a list with the current value or nothing
--
-- Work: O(1) and the sizes. Not to be sent twice, for the same reason as compare_and_set.lua.
local current = redis.call('GET', KEYS[1])
if current ~= ARGV[2] then
  return ARGV[1] == '1' and {current} or 0
end
return redis.call('DEL', KEYS[1])
