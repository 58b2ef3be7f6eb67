-- set_many.lua: sets the values of keys and returns the previous ones.
--
-- KEYS[1]  map
-- ARGV     a key and its value, for each; no key twice
-- Returns  a list of the previous values or nil, in the order of the keys
--
-- Work: O(keys) plus the sizes of the values; the caller sends 500 keys at most.
-- Not to be sent twice: see insert.lua.
local keys = {}
for i = 1, #ARGV, 2 do
  keys[#keys + 1] = ARGV[i]
end
local previous = redis.call('HMGET', KEYS[1], unpack(keys))
redis.call('HSET', KEYS[1], unpack(ARGV))
return previous
