-- remove_keys.lua: keys of a multimap less, with all their values.
--
-- KEYS[1]  map, a hash
-- KEYS[2…] the values of each key, sets or lists
-- ARGV     each key, and its hash
-- Returns  how many were in the map
--
-- Work: O(ARGV), some hundreds; the memory is freed in the background. Sent twice, it removes what others have inserted meanwhile. Where the values
-- may not be removed the key stays.
local removed = 0
for i = 2, #KEYS do
  local key, hash = ARGV[2 * i - 3], ARGV[2 * i - 2]
  local was = redis.call('HDEL', KEYS[1], key)
  local done = redis.pcall('UNLINK', KEYS[i])
  if type(done) == 'table' then
    if was == 1 then
      redis.call('HSET', KEYS[1], key, hash)
    end
    return done
  end
  removed = removed + was
end
return removed
