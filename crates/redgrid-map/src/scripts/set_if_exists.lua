-- set_if_exists.lua: another value for a key that has one.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  value
-- Returns  1 it had one and has this now, 0 not
--
-- Work: O(1) and the size. Not to be sent twice: others may have removed it in between.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
