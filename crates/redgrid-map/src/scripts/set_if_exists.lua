-- set_if_exists.lua: sets the value of a key that is in the map.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  value
-- Returns  1 set, 0 the key is not in the map
--
-- Work: O(1) plus the size of the value. Not to be sent twice: another client may have removed the
-- key in between.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
