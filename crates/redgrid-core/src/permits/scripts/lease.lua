-- lease.lua: how long a permit is still leased. Writes nothing.
--
-- KEYS[1]  leases  sorted set; each leased permit by the millisecond of its end
-- ARGV[1]  id
-- Returns  milliseconds, -1 without an end, -2 where it is not known or its lease is over
--
-- Work: O(1).
local ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
if ends <= now then
  return -2
end
-- Redisson's end of a permit without a lease.
if ends >= 922337203685477 then
  return -1
end
return ends - now
