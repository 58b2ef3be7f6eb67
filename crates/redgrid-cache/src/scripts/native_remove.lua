-- native_remove.lua: removes fields of a hash.
--
-- KEYS[1]  map, a hash
-- ARGV[1]  1 to return the previous values, 0 not to, equal to remove one key only if it has the
--          expected value
-- ARGV[2…] keys, 500 at most; with `equal` one key and the expected value
-- Returns  for each key {1 if it was removed or 0; the previous value, or nothing}
--
-- Work: O(keys). Not to be sent twice: the second transmission would find nothing.
local results = {}
for i = 2, ARGV[1] == 'equal' and 2 or #ARGV do
  local previous = redis.call('HGET', KEYS[1], ARGV[i])
  local removes = previous and (ARGV[1] ~= 'equal' or previous == ARGV[3])
  if removes then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
  results[#results + 1] = {removes and 1 or 0, ARGV[1] == '1' and previous or false}
end
return results
