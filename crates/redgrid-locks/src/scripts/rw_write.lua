-- rw_write.lua: acquire a read-write lock for writing, if it is free or the only reader upgrades.
--
-- KEYS[1]  lock       hash: `mode`, `read` or `write`, and a field for each holder; absent if free
-- KEYS[2]  waiting    hash: waiter → start of its wait (µs), end of the announcement (ms),
--                     number of the announcement
-- ARGV[1]  writer     new for each grant; ends with `:write`
-- ARGV[2]  lease      milliseconds
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- ARGV[4]  reader     field of the read hold that upgrades, or empty
-- ARGV[5]  waiter     field in `waiting`: the client's id, or the reader that upgrades
-- ARGV[6]  waits      lifetime of the announcement if the lock is held, milliseconds; 0 for none
-- Returns  {1, time, 0}     granted at `time` (microseconds since 1970): the fencing token
--          {0, time, left}  held by others; its PTTL. -2: the reader that upgrades is not a holder
--          {2, time, 0}     too late
--
-- Work: O(1), writes two keys. Sent twice, it enters once: fields are set, never counted, and a
-- lease is never shortened.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time, 0}
end
local mode = redis.call('HGET', KEYS[1], 'mode')
local is_held = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not is_held and ARGV[4] ~= '' and redis.call('HEXISTS', KEYS[1], ARGV[4]) == 0 then
  -- There may have been other writers since it was a holder.
  return {0, time, -2}
end
local free = is_held or redis.call('EXISTS', KEYS[1]) == 0
if not free and mode == 'read' and ARGV[4] ~= '' then
  free = redis.call('HEXISTS', KEYS[1], ARGV[4]) == 1 and redis.call('HLEN', KEYS[1]) == 2
end
if not free then
  if ARGV[6] ~= '0' then
    local ms, since = math.floor(time / 1000), string.format('%.0f', time)
    local previous = redis.pcall('HGET', KEYS[2], ARGV[5])
    local waits_since, announced_until = string.match(type(previous) == 'string' and previous or '', '^(%d+) (%d+)')
    if waits_since and tonumber(announced_until) > ms then
      since = waits_since
    end
    local number = string.match(ARGV[1], ':(%d+):write$') or '0'
    local announcement = since .. ' ' .. string.format('%.0f', ms + ARGV[6]) .. ' ' .. number
    -- Without the permission to write the announcement, the writer waits without one.
    local written = redis.pcall('HSET', KEYS[2], ARGV[5], announcement)
    if type(written) == 'number' and type(redis.pcall('PEXPIRE', KEYS[2], ARGV[6])) == 'table' then
      redis.pcall('DEL', KEYS[2])
    end
  end
  return {0, time, redis.call('PTTL', KEYS[1])}
end
if not is_held or redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1], '1')
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    local expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    if type(expire_reply) == 'table' then
      -- A lock needs a lifetime: a user without `+pexpire` cannot acquire it.
      redis.call('HDEL', KEYS[1], ARGV[1])
      if mode then
        redis.call('HSET', KEYS[1], 'mode', mode)
      else
        redis.call('HDEL', KEYS[1], 'mode')
      end
      return expire_reply
    end
  end
end
redis.pcall('HDEL', KEYS[2], ARGV[5])
return {1, time, 0}
