-- set.lua: sets the element at an index.
--
-- KEYS[1]  list
-- ARGV[1]  index, from 0
-- ARGV[2]  value
-- ARGV[3]  1 to return the previous element
-- Returns  {1, the previous element or nothing}; {0, number of elements} if the list has no such
--          index
--
-- Work: O(n) to find the index, skipping whole nodes of the list. Not to be sent twice: the second
-- copy would return the value of the first, and others may have moved the elements in between.
local length = redis.call('LLEN', KEYS[1])
if tonumber(ARGV[1]) >= length then
  return {0, length}
end
local previous = ARGV[3] == '1' and redis.call('LINDEX', KEYS[1], ARGV[1])
redis.call('LSET', KEYS[1], ARGV[1], ARGV[2])
return {1, previous}
