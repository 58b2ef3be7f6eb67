-- ranks.lua: where values of a sorted set are.
--
-- KEYS[1]  sorted set
-- ARGV[1]  ZRANK or ZREVRANK
-- ARGV[2…] the values
-- Returns  of each its rank, or nothing where it is not in
--
-- Work: O(ARGV log n), only reads.
local ranks = {}
for i = 2, #ARGV do
  ranks[i - 1] = redis.call(ARGV[1], KEYS[1], ARGV[i])
end
return ranks
