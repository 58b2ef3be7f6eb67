-- remove_all.lua: every element that is one of some values goes.
--
-- KEYS[1]  list
-- ARGV[1]  how many elements may be passed, about
-- ARGV[2]… values
-- Returns  {how many of the values were looked for, how many elements went}
--
-- Work: O(n) for each, of so many values as the list is short. Not to be sent twice: what others have added in between would go.
local length = redis.call('LLEN', KEYS[1])
local last = math.min(#ARGV, 1 + math.max(1, math.floor(tonumber(ARGV[1]) / math.max(1, length))))
local went = 0
for i = 2, last do
  went = went + redis.call('LREM', KEYS[1], 0, ARGV[i])
end
return {last - 1, went}
