-- set_many.lua: values for keys, and what they had.
--
-- KEYS[1]  map
-- ARGV     a key and its value, for each; no key twice
-- Returns  a list of what they had, or nothing, in their order
--
-- Work: O(keys) and the sizes; the caller sends 500 keys at most. Not to be sent twice, as insert.
local keys = {}
for i = 1, #ARGV, 2 do
  keys[#keys + 1] = ARGV[i]
end
local was = redis.call('HMGET', KEYS[1], unpack(keys))
redis.call('HSET', KEYS[1], unpack(ARGV))
return was
