-- compare_and_delete.lua: no value for the one that is expected.
--
-- KEYS[1]  value
-- ARGV[1]  1 where it is to be told what is there instead
-- ARGV[2]  what is expected
-- Returns  1 it was so and is deleted; 0 not, or, where that is to be told, a list of what is there or nothing
--
-- Work: O(1) and the sizes. Not to be sent twice, as compare_and_set.
local has = redis.call('GET', KEYS[1])
if has ~= ARGV[2] then
  return ARGV[1] == '1' and {has} or 0
end
return redis.call('DEL', KEYS[1])
