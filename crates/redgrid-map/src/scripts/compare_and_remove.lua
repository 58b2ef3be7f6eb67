-- compare_and_remove.lua: no value for a key that has the one that is expected.
--
-- KEYS[1]  map
-- ARGV[1]  1 where it is to be told what is there instead
-- ARGV[2]  key
-- ARGV[3]  what is expected
-- Returns  1 it was so and is removed; 0 not, or, where that is to be told, a list of what is there or nothing
--
-- Work: O(1) and the sizes. Not to be sent twice, as compare_and_set.
local has = redis.call('HGET', KEYS[1], ARGV[2])
if has ~= ARGV[3] then
  return ARGV[1] == '1' and {has} or 0
end
return redis.call('HDEL', KEYS[1], ARGV[2])
