-- replace.lua: another value of a sorted set with the score of one, in its place.
--
-- KEYS[1]  sorted set
-- ARGV[1]  the value
-- ARGV[2]  the other
-- Returns  1 it is replaced, 0 it was not in
--
-- Work: O(log n). Not to be sent twice: others may have inserted it anew in between. Who may not do all of it is stopped by the first ZADD and the
-- first ZREM, which change nothing that is not changed anyway; the set is never empty, and keeps its lifetime.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score then
  return 0
end
redis.call('ZADD', KEYS[1], 'XX', score, ARGV[1])
if ARGV[1] ~= ARGV[2] then
  redis.call('ZREM', KEYS[1], ARGV[2])
  redis.call('ZADD', KEYS[1], score, ARGV[2])
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return 1
