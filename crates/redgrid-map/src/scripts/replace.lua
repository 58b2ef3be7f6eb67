-- replace.lua: sets the value of a key that is in the map, and returns the previous one.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  value
-- Returns  the previous value; nil if the key is not in the map, and nothing is set
--
-- Work: O(1) plus the sizes of the values. Not to be sent twice: see insert.lua.
local previous = redis.call('HGET', KEYS[1], ARGV[1])
if previous then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return previous
