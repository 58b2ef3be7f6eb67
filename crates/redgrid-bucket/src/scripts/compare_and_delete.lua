-- compare_and_delete.lua: deletes a value if it is the expected one.
--
-- KEYS[1]  value
-- ARGV[1]  1 to return the current value if it is another
-- ARGV[2]  the expected value
-- Returns  1 it is deleted; otherwise 0 or, with ARGV[1], a list of the current value or nothing
--
-- Work: O(1) and the sizes. Not to be sent twice, like compare_and_set.
local current = redis.call('GET', KEYS[1])
if current ~= ARGV[2] then
  return ARGV[1] == '1' and {current} or 0
end
return redis.call('DEL', KEYS[1])
