-- remove_many.lua: removes keys and returns their values.
--
-- KEYS[1]  map
-- ARGV     keys, without duplicates
-- Returns  a list of the removed values or nil, in the order of the keys
--
-- Work: O(keys) plus the sizes of the values; the caller sends 500 keys at most.
-- Not to be sent twice: see remove.lua.
local removed = redis.call('HMGET', KEYS[1], unpack(ARGV))
redis.call('HDEL', KEYS[1], unpack(ARGV))
return removed
