-- acquire.lua: acquire a lock for one holder if it is free.
--
-- KEYS[1]  lock       hash; one field, the holder; absent when free
-- ARGV[1]  holder     new for each grant
-- ARGV[2]  lease      milliseconds
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- Returns  time             granted then (microseconds since 1970): the fencing token
--          {0, time, left}  held by another holder; its PTTL
--          {2, time, 0}     too late
--
-- Work: O(1), writes one key. Sent twice, it acquires once: the field is set, never counted, and a
-- lease is never shortened.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time, 0}
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return {0, time, redis.call('PTTL', KEYS[1])}
  end
  if redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then
    return time
  end
end
redis.call('HSET', KEYS[1], ARGV[1], '1')
local expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
if type(expire_reply) == 'table' then
  -- A lock needs a lifetime: a user without `+pexpire` cannot acquire it.
  redis.call('HDEL', KEYS[1], ARGV[1])
  return expire_reply
end
return time
