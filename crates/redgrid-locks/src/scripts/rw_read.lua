-- rw_read.lua: acquire a read-write lock for reading. Its writer, and writers that have waited for
-- longer, go first.
--
-- KEYS[1]  lock       hash: `mode`, `read` or `write`, and a field for each holder; absent if free
-- KEYS[2]  timeout    string; present while the reader's lease lasts. Redisson checks those of all
--                     readers
-- KEYS[3]  waiting    hash: waiter → start of its wait (µs), end of the announcement (ms),
--                     number of the announcement
-- ARGV[1]  reader     new for each grant
-- ARGV[2]  lease      milliseconds
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- ARGV[4]  writer     field of the write hold from which it converts, or empty
-- ARGV[5]  since      when this request was first refused, in microseconds since 1970; 0 for a new
--                     request
-- ARGV[6]  waits      what to do if that write hold is gone. 1: wait like any other request;
--                     0: return -2
-- Returns  {1, time, 0}     granted at `time` (microseconds since 1970)
--          {0, time, left}  a writer holds the lock or is first: the lock's PTTL, or the rest of
--                           the announcement
--          {0, time, -2}    the write hold from which it converts is gone
--          {2, time, 0}     too late
--
-- Work: O(clients with a waiting writer), writes two keys. Sent twice, it enters once: fields are
-- set, never counted, and a lifetime is never shortened.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time, 0}
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  local is_writer = ARGV[4] ~= '' and redis.call('HEXISTS', KEYS[1], ARGV[4]) == 1
  if not is_writer then
    if ARGV[4] ~= '' and ARGV[6] == '0' then
      return {0, time, -2}
    end
    -- A hash without a mode is another kind of lock.
    if mode == 'write' or (not mode and redis.call('EXISTS', KEYS[1]) == 1) then
      return {0, time, redis.call('PTTL', KEYS[1])}
    end
    local waiting = redis.pcall('HGETALL', KEYS[3])
    local ms, since, left = math.floor(time / 1000), tonumber(ARGV[5]), 0
    for _, writer in ipairs(waiting.err and {} or waiting) do
      local waits_since, announced_until = string.match(writer, '^(%d+) (%d+)')
      if waits_since and (since == 0 or tonumber(waits_since) < since) then
        left = math.max(left, tonumber(announced_until) - ms)
      end
    end
    if left > 0 then
      return {0, time, left}
    end
  end
end
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
end
redis.call('HSET', KEYS[1], 'mode', mode or 'read', ARGV[1], '1')
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  local expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(expire_reply) == 'table' then
    -- A lock needs a lifetime: a user without `+pexpire` cannot acquire it.
    redis.call('HDEL', KEYS[1], ARGV[1])
    if not mode then
      redis.call('HDEL', KEYS[1], 'mode')
    end
    return expire_reply
  end
end
return {1, time, 0}
