-- remove_many.lua: no values for keys, and what they had.
--
-- KEYS[1]  map
-- ARGV     keys, none twice
-- Returns  a list of what they had, or nothing, in their order
--
-- Work: O(keys) and the sizes; the caller sends 500 keys at most. Not to be sent twice, as remove.
local was = redis.call('HMGET', KEYS[1], unpack(ARGV))
redis.call('HDEL', KEYS[1], unpack(ARGV))
return was
