-- compare_and_delete.lua: no value for the one that is expected.
--
-- KEYS[1]  value
-- ARGV[1]  what is expected
-- Returns  1 it was so and is deleted, 0 not
--
-- Work: O(1) and the sizes. Not to be sent twice, as compare_and_set.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
