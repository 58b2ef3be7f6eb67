-- add_and_rank.lua: values and scores for a sorted set, and where they are then.
--
-- KEYS[1]  sorted set
-- ARGV[1]  ZADD, or ZINCRBY for scores that are added
-- ARGV[2]  ZRANK or ZREVRANK
-- ARGV[3…] score, value, …
-- Returns  of each value its rank when all are in
--
-- Work: O(ARGV log n). Not to be sent twice: others may have removed some in between, and ZINCRBY adds twice. Who may not ask for
-- ranks is stopped before anything is added.
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
