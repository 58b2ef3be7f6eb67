-- insert.lua: a value for a key, and what it had.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  value
-- Returns  what it had, or nothing
--
-- Work: O(1) and the sizes. Not to be sent twice: the second would be told the first's value.
local was = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return was
