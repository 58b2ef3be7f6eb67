-- insert.lua: sets the value of a key and returns the previous one.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  value
-- Returns  the previous value, or nil
--
-- Work: O(1) plus the sizes of the values. Not to be sent twice: the second transmission would
-- return the value of the first.
local previous = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return previous
