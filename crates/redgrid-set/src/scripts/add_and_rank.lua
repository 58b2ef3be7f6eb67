-- add_and_rank.lua: adds values to a sorted set, or increments their scores, and returns their
-- ranks.
-- KEYS[1]  sorted set
-- ARGV[1]  ZADD, or ZINCRBY to increment
-- ARGV[2]  ZRANK or ZREVRANK
-- ARGV[3…] score, value, …
-- Returns  for each value its rank after all values are added
--
-- Work: O(ARGV log n). Not to be sent twice: others may have removed values in between, and ZINCRBY
-- increments twice. A user without the permission to read ranks gets an error before any write.
if #ARGV > 3 then
  redis.call(ARGV[2], KEYS[1], ARGV[4])
end
for i = 3, #ARGV, 2 do
  redis.call(ARGV[1], KEYS[1], ARGV[i], ARGV[i + 1])
end
local ranks = {}
for i = 4, #ARGV, 2 do
  ranks[#ranks + 1] = redis.call(ARGV[2], KEYS[1], ARGV[i])
end
return ranks
