-- acquire_many.lua: acquire several locks, each for its own holder: all of them, or none.
--
-- KEYS[i]      lock       hash; one field, the holder; absent when free
-- ARGV[1]      lease      milliseconds
-- ARGV[2]      not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- ARGV[i + 2]  holder     new for each grant
-- Returns  {1, time, 0}        all granted at `time` (microseconds since 1970): the fencing token
--                              of each
--          {0, time, left, i}  the i-th is held by another holder; its PTTL
--          {2, time, 0}        too late
--          {3, time, i, text}  refused because of the i-th, which is no lock or not permitted; none
--                              is acquired
--
-- Work: O(keys), writes each. Sent twice, it acquires once: a field is set, never counted, and a
-- lease is never shortened.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[2]) then
  return {2, time, 0}
end
-- An error that concerns one key is returned with its number; other errors concern all keys.
local function rejection(i, reply)
  if string.find(reply.err, 'WRONGTYPE', 1, true) or string.find(reply.err, 'NOPERM', 1, true) then
    return {3, time, i, reply.err}
  end
  return reply
end
for i, key in ipairs(KEYS) do
  local held = redis.pcall('EXISTS', key)
  if held == 1 then
    held = redis.pcall('HEXISTS', key, ARGV[i + 2])
    if held == 0 then
      return {0, time, redis.call('PTTL', key), i}
    end
  end
  if type(held) == 'table' then
    return rejection(i, held)
  end
end
local lease = tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  local written = redis.pcall('HSET', key, ARGV[i + 2], '1')
  if type(written) ~= 'table' and (written == 1 or redis.call('PTTL', key) < lease) then
    written = redis.pcall('PEXPIRE', key, ARGV[1])
  end
  if type(written) == 'table' then
    -- A lock needs a lifetime, and all locks are acquired or none: remove the fields that were set.
    for j = 1, i do
      redis.pcall('HDEL', KEYS[j], ARGV[j + 2])
    end
    return rejection(i, written)
  end
end
return {1, time, 0}
