-- insert_if_absent.lua: sets the value of a key that is not in the map.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  value
-- Returns  the current value, or nil if the new one was set
--
-- Work: O(1) plus the sizes of the values. Not to be sent twice: see insert.lua.
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then
  return false
end
return redis.call('HGET', KEYS[1], ARGV[1])
