-- acquire_many.lua: take many locks, each for a holder of its own: all of them, or none where one is taken.
--
-- KEYS[i]      lock       hash; one field, the holder; absent when free
-- ARGV[1]      lease      milliseconds
-- ARGV[2]      not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[i + 2]  holder     new for each grant
-- Returns  {1, time, 0}        all granted at `time` (microseconds since 1970): the fencing token of each
--          {0, time, left, i}  the i-th is taken by another holder; its PTTL
--          {2, time, 0}        too late
--          {3, time, i, text}  refused because of the i-th, which is no lock or denied; none is taken
--
-- Work: O(keys), writes each. Sent twice, it takes once: a field is set, never counted, and a lease is never shortened.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[2]) then
  return {2, time, 0}
end
-- What is wrong with one name is told with it; the rest concerns all of them.
local function refused(i, why)
  if string.find(why.err, 'WRONGTYPE', 1, true) or string.find(why.err, 'NOPERM', 1, true) then
    return {3, time, i, why.err}
  end
  return why
end
for i, key in ipairs(KEYS) do
  local taken = redis.pcall('EXISTS', key)
  if taken == 1 then
    taken = redis.pcall('HEXISTS', key, ARGV[i + 2])
    if taken == 0 then
      return {0, time, redis.call('PTTL', key), i}
    end
  end
  if type(taken) == 'table' then
    return refused(i, taken)
  end
end
local lease = tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  local done = redis.pcall('HSET', key, ARGV[i + 2], '1')
  if type(done) ~= 'table' and (done == 1 or redis.call('PTTL', key) < lease) then
    done = redis.pcall('PEXPIRE', key, ARGV[1])
  end
  if type(done) == 'table' then
    -- No lock without a lifetime, and none where not all can be had.
    for j = 1, i do
      redis.pcall('HDEL', KEYS[j], ARGV[j + 2])
    end
    return refused(i, done)
  end
end
return {1, time, 0}
