-- replace.lua: replaces a value of a sorted set by another with the same score.
--
-- KEYS[1]  sorted set
-- ARGV[1]  the value to replace
-- ARGV[2]  the new value
-- Returns  1 the value is replaced, 0 the set does not contain it
--
-- Work: O(log n). Not to be sent twice: others may have inserted the value again in between. If a
-- user lacks a permission, the first ZADD or the first ZREM fails; until then nothing is changed.
-- The set is never empty, and keeps its lifetime.
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
