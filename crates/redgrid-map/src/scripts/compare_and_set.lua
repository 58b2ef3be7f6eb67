-- compare_and_set.lua: another value for the one that is expected.
--
-- KEYS[1]  map
-- ARGV[1]  1 where it is to be told what is there instead
-- ARGV[2]  key
-- ARGV[3]  what is expected
-- ARGV[4]  what it is to be
-- Returns  1 it was so and is set; 0 not, or, where that is to be told, a list of what is there or nothing
--
-- Work: O(1) and the sizes. Not to be sent twice: the first may have been set, and changed back by others.
local has = redis.call('HGET', KEYS[1], ARGV[2])
if has ~= ARGV[3] then
  return ARGV[1] == '1' and {has} or 0
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
return 1
