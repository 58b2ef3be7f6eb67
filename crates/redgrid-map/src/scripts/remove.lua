-- remove.lua: no value for a key, and what it had.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- Returns  what it had, or nothing
--
-- Work: O(1) and the size. Not to be sent twice: the second would find nothing.
local was = redis.call('HGET', KEYS[1], ARGV[1])
if was then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return was
