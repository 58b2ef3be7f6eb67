-- compare_and_remove.lua: no value for a key that has the one that is expected.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  what is expected
-- Returns  1 it was so and is removed, 0 not
--
-- Work: O(1) and the sizes. Not to be sent twice, as compare_and_set.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
return redis.call('HDEL', KEYS[1], ARGV[1])
