-- contains_all.lua: checks whether a list contains all values.
--
-- KEYS[1]  list
-- ARGV[1]  maximum number of elements to visit, approximately
-- ARGV[2…] values
-- Returns  {number of checked values, 1 if the list contains them or 0 if it lacks the last one}
--
-- Work: O(n) for each value; the longer the list, the fewer values are checked. Read-only. Sent
-- twice, it checks twice.
local length = redis.call('LLEN', KEYS[1])
local last = math.min(#ARGV, 1 + math.max(1, math.floor(tonumber(ARGV[1]) / math.max(1, length))))
for i = 2, last do
  if not redis.call('LPOS', KEYS[1], ARGV[i]) then
    return {i - 1, 0}
  end
end
return {last - 1, 1}
