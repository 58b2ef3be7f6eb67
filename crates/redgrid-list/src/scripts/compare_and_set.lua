-- compare_and_set.lua: another value at an index for the one that is expected.
--
-- KEYS[1]  list
-- ARGV[1]  1 where it is to be told what is there instead
-- ARGV[2]  index, from 0
-- ARGV[3]  what is expected
-- ARGV[4]  what it is to be
-- Returns  1 it was so and is set; 0 not, or, where that is to be told, a list of what is there or nothing
--
-- Work: O(n) to find the index, a node of the list at a time. Not to be sent twice: the first may have been set, and changed back by others.
local has = redis.call('LINDEX', KEYS[1], ARGV[2])
if has ~= ARGV[3] then
  return ARGV[1] == '1' and {has} or 0
end
redis.call('LSET', KEYS[1], ARGV[2], ARGV[4])
return 1
