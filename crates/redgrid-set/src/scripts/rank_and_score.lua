-- rank_and_score.lua: where a value of a sorted set is.
--
-- KEYS[1]  sorted set
-- ARGV[1]  ZRANK or ZREVRANK
-- ARGV[2]  the value
-- Returns  {rank, score}, or nothing where it is not in
--
-- Work: O(log n), only reads.
local rank = redis.call(ARGV[1], KEYS[1], ARGV[2])
if not rank then
  return false
end
return {rank, redis.call('ZSCORE', KEYS[1], ARGV[2])}
