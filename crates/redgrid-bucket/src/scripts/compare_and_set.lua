-- compare_and_set.lua: another value for the one that is expected.
--
-- KEYS[1]  value
-- ARGV[1]  1 where it is to be told what is there instead
-- ARGV[2]  what is expected
-- ARGV[3]  what it is to be
-- ARGV[4]… options of SET about its lifetime
-- Returns  1 it was so and is set; 0 not, or, where that is to be told, a list of what is there or nothing
--
-- Work: O(1) and the sizes. Not to be sent twice: the first may have been set, and changed back by others.
local has = redis.call('GET', KEYS[1])
if has ~= ARGV[2] then
  return ARGV[1] == '1' and {has} or 0
end
redis.call('SET', KEYS[1], unpack(ARGV, 3))
return 1
