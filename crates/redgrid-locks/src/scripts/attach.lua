-- attach.lua: take over a hold that its process has detached, for a new holder.
--
-- KEYS[1]  lock       hash; one field, the holder
-- ARGV[1]  holder     new for each grant
-- ARGV[2]  former     the holder that was detached
-- ARGV[3]  lease      minimum time from now, in milliseconds; 0 leaves the remaining time as it is
-- ARGV[4]  not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- Returns  {1, time, left}  the new holder has it, for `left` milliseconds after `time`
--          {0, time, 0}     the former holder does not hold it
--          {2, time, 0}     too late
--
-- Work: O(1), writes one key. Sent twice, the second transmission finds its own field. Once the
-- former field is gone, this script takes over nothing.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[4]) then
  return {2, time, 0}
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
    return {0, time, 0}
  end
  -- In this order: a hash without fields is deleted, and its lifetime with it.
  redis.call('HSET', KEYS[1], ARGV[1], '1')
  redis.call('HDEL', KEYS[1], ARGV[2])
end
local left = redis.call('PTTL', KEYS[1])
if left < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  left = tonumber(ARGV[3])
end
return {1, time, left}
