-- remove_many.lua: removes keys and returns their values.
--
-- KEYS[1]  map
-- ARGV     keys, without duplicates
-- Returns  a list of the removed values or nil, in the order of the keys
--
-- Work: O(keys) and the sizes; the caller sends 500 keys at most. Not to be sent twice, as remove.
local removed = redis.call('HMGET', KEYS[1], unpack(ARGV))
redis.call('HDEL', KEYS[1], unpack(ARGV))
return removed
