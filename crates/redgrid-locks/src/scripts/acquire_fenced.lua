-- acquire_fenced.lua: acquire a lock for one holder if it is free, with a token from a counter.
--
-- KEYS[1]  lock       hash; one field, the holder; absent when free
-- KEYS[2]  token      string; the last token of any holder, Redisson's counter; without a lifetime
-- ARGV[1]  holder     new for each grant
-- ARGV[2]  lease      milliseconds
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- Returns  {1, time, 0, token}  granted at `time` (microseconds since 1970)
--          {0, time, left}      held by another holder; its PTTL
--          {2, time, 0}         too late
--
-- The token is one more than the last, and at least `time`. So if the server loses its memory, new
-- tokens are higher than earlier ones.
--
-- Work: O(1), writes two keys. Sent twice, it acquires once and returns the same token: the counter
-- is written only if the lock was free.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time, 0}
end
local token
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return {0, time, redis.call('PTTL', KEYS[1])}
  end
  token = redis.call('GET', KEYS[2])
  if token and redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then
    return {1, time, 0, token}
  end
end
if not token then
  local last = tonumber(redis.call('GET', KEYS[2]) or '0')
  token = string.format('%.0f', math.max(last + 1, time))
  redis.call('SET', KEYS[2], token)
end
redis.call('HSET', KEYS[1], ARGV[1], '1')
local expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
if type(expire_reply) == 'table' then
  -- A lock needs a lifetime: a user without `+pexpire` cannot acquire it.
  redis.call('HDEL', KEYS[1], ARGV[1])
  return expire_reply
end
return {1, time, 0, token}
