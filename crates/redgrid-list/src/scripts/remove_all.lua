-- remove_all.lua: removes every element that equals one of some values.
--
-- KEYS[1]  list
-- ARGV[1]  maximum number of elements to visit, approximately
-- ARGV[2…] values
-- Returns  {number of searched values, number of removed elements}
--
-- Work: O(n) for each value; the longer the list, the fewer values are searched. Not to be sent
-- twice: elements that others have added in between would be removed.
local length = redis.call('LLEN', KEYS[1])
local last = math.min(#ARGV, 1 + math.max(1, math.floor(tonumber(ARGV[1]) / math.max(1, length))))
local removed = 0
for i = 2, last do
  removed = removed + redis.call('LREM', KEYS[1], 0, ARGV[i])
end
return {last - 1, removed}
