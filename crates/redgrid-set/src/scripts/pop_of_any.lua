-- pop_of_any.lua: pops values from the first of several sorted sets that is not empty.
--
-- KEYS     the sorted sets
-- ARGV[1]  ZPOPMIN or ZPOPMAX
-- ARGV[2]  the maximum number of values
-- Returns  {index of the set, from 0, {value, score, …}}, or nothing if all are empty
--
-- Work: O(KEYS + ARGV[2] log n). Not to be sent twice: the second copy would remove other values.
for i = 1, #KEYS do
  local found = redis.call(ARGV[1], KEYS[i], ARGV[2])
  if #found > 0 then
    return {i - 1, found}
  end
end
return false
