-- remove_values.lua: deletes keys of a multimap, each with its values.
--
-- KEYS[1]  the multimap, a hash
-- KEYS[2…] the values of each key, a set or a list
-- ARGV     the keys, as fields of the hash, in the same order
-- Returns  the number of keys that existed
--
-- Work: O(keys), some hundreds at most. Sent twice, the second copy finds no keys, or keys that
-- were inserted meanwhile.
local removed = 0
for i = 1, #ARGV do
  local kind = redis.call('TYPE', KEYS[i + 1]).ok
  if kind == 'set' or kind == 'list' then
    redis.call('UNLINK', KEYS[i + 1])
  end
  removed = removed + redis.call('HDEL', KEYS[1], ARGV[i])
end
return removed
