-- rw_read.lua: enter a read-write lock as a reader, where no writer is inside and none waits that came before.
--
-- KEYS[1]  lock       hash: `mode`, `read` or `write`, and a field for each holder; absent when free
-- KEYS[2]  level      string; present while the reader's lease lasts. Redisson looks at those of all readers
-- KEYS[3]  waiting    hash: who has a writer that waits, since when (µs), how long it is believed (ms), the number of the word
-- ARGV[1]  reader     new for each grant
-- ARGV[2]  lease      milliseconds
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[4]  writer     field of the write hold under which it may read, or empty
-- ARGV[5]  since      when it was first refused, in microseconds since 1970; 0 for who has just come
-- ARGV[6]  waits      1: under a writer that is gone, it waits as any other; 0: it is told
-- Returns  {1, time, 0}      granted at `time` (microseconds since 1970)
--          {0, time, left}   a writer has it, or goes first: the lock's PTTL, or how long the waiting writer is believed
--          {0, time, -2}     the writer under which it may read is gone
--          {2, time, 0}      too late
--
-- Work: O(clients with a waiting writer), writes two keys. Sent twice, it enters once: fields are set, never counted, and a
-- lifetime is never shortened.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time, 0}
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  local inside = ARGV[4] ~= '' and redis.call('HEXISTS', KEYS[1], ARGV[4]) == 1
  if not inside then
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
      local came, believed = string.match(writer, '^(%d+) (%d+)')
      if came and (since == 0 or tonumber(came) < since) then
        left = math.max(left, tonumber(believed) - ms)
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
  local bounded = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(bounded) == 'table' then
    -- No lock without a lifetime: a user who may not set one may not lock.
    redis.call('HDEL', KEYS[1], ARGV[1])
    if not mode then
      redis.call('HDEL', KEYS[1], 'mode')
    end
    return bounded
  end
end
return {1, time, 0}
