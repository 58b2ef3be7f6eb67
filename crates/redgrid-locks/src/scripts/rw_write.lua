-- rw_write.lua: enter a read-write lock as its writer if it is free, or if the only reader is to write.
--
-- KEYS[1]  lock       hash: `mode`, `read` or `write`, and a field for each holder; absent when free
-- KEYS[2]  waiting    hash: who has a writer that waits, since when (µs), how long it is believed (ms), the number of the word
-- ARGV[1]  writer     new for each grant; ends with `:write`
-- ARGV[2]  lease      milliseconds
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[4]  reader     field of the read hold that is to write, or empty
-- ARGV[5]  mark       field in `waiting`: the client's id, or the reader that is to write
-- ARGV[6]  waits      milliseconds for which readers are to step back if it is taken; 0 for who only looks
-- Returns  {1, time, 0}      granted at `time` (microseconds since 1970): the fencing token
--          {0, time, left}   taken by others; its PTTL. -2: the reader that is to write is not in
--          {2, time, 0}      too late
--
-- Work: O(1), writes two keys. Sent twice, it enters once: fields are set, never counted, and a lease is never shortened.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time, 0}
end
local mode = redis.call('HGET', KEYS[1], 'mode')
local mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not mine and ARGV[4] ~= '' and redis.call('HEXISTS', KEYS[1], ARGV[4]) == 0 then
  -- Others may have written since it was in.
  return {0, time, -2}
end
local free = mine or redis.call('EXISTS', KEYS[1]) == 0
if not free and mode == 'read' and ARGV[4] ~= '' then
  free = redis.call('HEXISTS', KEYS[1], ARGV[4]) == 1 and redis.call('HLEN', KEYS[1]) == 2
end
if not free then
  if ARGV[6] ~= '0' then
    local ms, since = math.floor(time / 1000), string.format('%.0f', time)
    local said = redis.pcall('HGET', KEYS[2], ARGV[5])
    local came, believed = string.match(type(said) == 'string' and said or '', '^(%d+) (%d+)')
    if came and tonumber(believed) > ms then
      since = came
    end
    local number = string.match(ARGV[1], ':(%d+):write$') or '0'
    local word = since .. ' ' .. string.format('%.0f', ms + ARGV[6]) .. ' ' .. number
    -- Who may not write it waits without being waited for.
    local set = redis.pcall('HSET', KEYS[2], ARGV[5], word)
    if type(set) == 'number' and type(redis.pcall('PEXPIRE', KEYS[2], ARGV[6])) == 'table' then
      redis.pcall('DEL', KEYS[2])
    end
  end
  return {0, time, redis.call('PTTL', KEYS[1])}
end
if not mine or redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1], '1')
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    local bounded = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    if type(bounded) == 'table' then
      -- No lock without a lifetime: a user who may not set one may not lock.
      redis.call('HDEL', KEYS[1], ARGV[1])
      if mode then
        redis.call('HSET', KEYS[1], 'mode', mode)
      else
        redis.call('HDEL', KEYS[1], 'mode')
      end
      return bounded
    end
  end
end
redis.pcall('HDEL', KEYS[2], ARGV[5])
return {1, time, 0}
