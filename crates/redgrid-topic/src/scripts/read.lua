-- read.lua: reads the messages after an id.
--
-- KEYS[1]  stream      the messages
-- KEYS[2]  leases      sorted set: subscribers, scored by the end of their lease
-- ARGV[1]  subscriber
-- ARGV[2]  id          the last message that was read
-- ARGV[3]  count       maximum number of messages
-- Returns  {1, messages}  each an id and its fields
--          {0}            the subscriber does not exist
--
-- Work: O(count). Only reads.
if redis.call('EXISTS', KEYS[1]) == 0 or not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return {0}
end
return {1, redis.call('XRANGE', KEYS[1], '(' .. ARGV[2], '+', 'COUNT', ARGV[3])}
