-- remove_keys.lua: keys of a multimap less, with all their values.
--
-- KEYS[1]  map, a hash
-- KEYS[2…] the values of each key, sets or lists
-- ARGV     the keys
-- Returns  how many were in the map
--
-- Work: O(ARGV), some hundreds; the memory is freed in the background. Sent twice, it removes what others have inserted meanwhile.
local removed = 0
for i = 1, #ARGV do
  removed = removed + redis.call('HDEL', KEYS[1], ARGV[i])
  redis.call('UNLINK', KEYS[i + 1])
end
return removed
