-- ranks.lua: reads the ranks of values of a sorted set.
--
-- KEYS[1]  sorted set
-- ARGV[1]  ZRANK or ZREVRANK
-- ARGV[2…] the values
-- Returns  for each value its rank, or nothing if the set does not contain it
--
-- Work: O(ARGV log n), read-only.
local ranks = {}
for i = 2, #ARGV do
  ranks[i - 1] = redis.call(ARGV[1], KEYS[1], ARGV[i])
end
return ranks
