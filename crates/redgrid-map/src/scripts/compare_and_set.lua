-- compare_and_set.lua: another value for the one that is expected.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  what is expected
-- ARGV[3]  what it is to be
-- Returns  1 it was so and is set, 0 not
--
-- Work: O(1) and the sizes. Not to be sent twice: the first may have been set, and changed back by others.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
