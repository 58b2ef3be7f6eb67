-- insert_if_absent.lua: a value for a key that has none.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  value
-- Returns  what it has, or nothing where it has the new one now
--
-- Work: O(1) and the sizes. Not to be sent twice, as insert.
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then
  return false
end
return redis.call('HGET', KEYS[1], ARGV[1])
