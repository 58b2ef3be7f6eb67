-- read.lua: what is behind an id.
--
-- KEYS[1]  stream      the messages
-- KEYS[2]  ends        sorted set: subscribers by when they end
-- ARGV[1]  subscriber
-- ARGV[2]  id          the last that is known
-- ARGV[3]  count       how many at most
-- Returns  {1, messages}  each an id and its fields
--          {0}            it is no subscriber any more
--
-- Work: O(count). Only reads.
if redis.call('EXISTS', KEYS[1]) == 0 or not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return {0}
end
return {1, redis.call('XRANGE', KEYS[1], '(' .. ARGV[2], '+', 'COUNT', ARGV[3])}
