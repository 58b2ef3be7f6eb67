-- compare_and_set.lua: sets the element at an index if it is the expected one.
--
-- KEYS[1]  list
-- ARGV[1]  1 to return the current element if it is not the expected one
-- ARGV[2]  index, from 0
-- ARGV[3]  the expected element
-- ARGV[4]  the new element
-- Returns  1 it is set; otherwise 0 or, with ARGV[1], a list with the current element or nothing
--
-- Work: O(n) to find the index, skipping whole nodes of the list. Not to be sent twice: others may
-- have restored the expected element after the first copy.
local current = redis.call('LINDEX', KEYS[1], ARGV[2])
if current ~= ARGV[3] then
  return ARGV[1] == '1' and {current} or 0
end
redis.call('LSET', KEYS[1], ARGV[2], ARGV[4])
return 1
