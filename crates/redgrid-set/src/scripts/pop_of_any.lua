-- pop_of_any.lua: values from the first of several sorted sets that has any.
--
-- KEYS     the sorted sets
-- ARGV[1]  ZPOPMIN or ZPOPMAX
-- ARGV[2]  how many at most
-- Returns  {which set, from 0, {value, score, …}}, or nothing where none has any
--
-- Work: O(KEYS + ARGV[2] log n). Not to be sent twice: the second would remove others.
for i = 1, #KEYS do
  local found = redis.call(ARGV[1], KEYS[i], ARGV[2])
  if #found > 0 then
    return {i - 1, found}
  end
end
return false
