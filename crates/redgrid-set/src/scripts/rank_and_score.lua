-- rank_and_score.lua: reads the rank and the score of a value of a sorted set.
--
-- KEYS[1]  sorted set
-- ARGV[1]  ZRANK or ZREVRANK
-- ARGV[2]  the value
-- Returns  {rank, score}, or nothing if the set does not contain the value
--
-- Work: O(log n), read-only.
local rank = redis.call(ARGV[1], KEYS[1], ARGV[2])
if not rank then
  return false
end
return {rank, redis.call('ZSCORE', KEYS[1], ARGV[2])}
