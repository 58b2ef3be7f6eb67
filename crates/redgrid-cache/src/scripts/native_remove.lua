-- native_remove.lua: no values for keys of a hash.
--
-- KEYS[1]  map, a hash
-- ARGV[1]  1 where it is to be told what they had, 0 not, equal for one key that must have a value
-- ARGV[2…] keys, 500 at most; of `equal` one, and what is expected
-- Returns  for each {1 it was there and is not any more, or 0; what it had, or nothing}
--
-- Work: O(keys). Not to be sent twice: the second would find nothing.
local done = {}
for i = 2, ARGV[1] == 'equal' and 2 or #ARGV do
  local was = redis.call('HGET', KEYS[1], ARGV[i])
  local goes = was and (ARGV[1] ~= 'equal' or was == ARGV[3])
  if goes then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
  done[#done + 1] = {goes and 1 or 0, ARGV[1] == '1' and was or false}
end
return done
