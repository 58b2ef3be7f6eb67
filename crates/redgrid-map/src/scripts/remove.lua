-- remove.lua: removes a key and returns its value.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- Returns  the removed value, or nil
--
-- Work: O(1) plus the size of the value. Not to be sent twice: the second transmission would not
-- find the key.
local removed = redis.call('HGET', KEYS[1], ARGV[1])
if removed then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return removed
