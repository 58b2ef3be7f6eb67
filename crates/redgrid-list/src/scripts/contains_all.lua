-- contains_all.lua: whether all values are in a list.
--
-- KEYS[1]  list
-- ARGV[1]  how many elements may be passed, about
-- ARGV[2]… values
-- Returns  {how many of them were looked for, 1 where they are there and 0 where the last is not}
--
-- Work: O(n) for each, of so many values as the list is short; only reads. Sent twice, it looks twice.
local length = redis.call('LLEN', KEYS[1])
local last = math.min(#ARGV, 1 + math.max(1, math.floor(tonumber(ARGV[1]) / math.max(1, length))))
for i = 2, last do
  if not redis.call('LPOS', KEYS[1], ARGV[i]) then
    return {i - 1, 0}
  end
end
return {last - 1, 1}
