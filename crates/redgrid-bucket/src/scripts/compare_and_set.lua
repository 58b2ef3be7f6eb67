-- compare_and_set.lua: another value for the one that is expected.
--
-- KEYS[1]  value
-- ARGV[1]  what is expected
-- ARGV[2]  what it is to be
-- ARGV[3]… options of SET about its lifetime
-- Returns  1 it was so and is set, 0 not
--
-- Work: O(1) and the sizes. Not to be sent twice: the first may have been set, and changed back by others.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], unpack(ARGV, 2))
return 1
