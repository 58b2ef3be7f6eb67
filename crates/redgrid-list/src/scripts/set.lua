-- set.lua: another value at an index.
--
-- KEYS[1]  list
-- ARGV[1]  index, from 0
-- ARGV[2]  value
-- ARGV[3]  1 where it is to be told what was there
-- Returns  {1, what was there or nothing}; {0, how many there are} where it has no such index
--
-- Work: O(n) to find the index, a node of the list at a time. Not to be sent twice: the second would be told the first's value, and
-- others may have moved the elements in between.
local length = redis.call('LLEN', KEYS[1])
if tonumber(ARGV[1]) >= length then
  return {0, length}
end
local was = ARGV[3] == '1' and redis.call('LINDEX', KEYS[1], ARGV[1])
redis.call('LSET', KEYS[1], ARGV[1], ARGV[2])
return {1, was}
