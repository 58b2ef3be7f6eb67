-- lease.lua: returns the remaining lease of a permit.
--
-- KEYS[1]  leases  sorted set; the leased permits, scored by the ends of their leases in ms
-- ARGV[1]  id      of the permit
-- Returns  milliseconds; -1 if the lease has no end; -2 if the id is unknown or its lease has ended
--
-- Work: O(1), writes nothing.
local ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
if ends <= now then
  return -2
end
-- Redisson stores this number as the end of a lease that has no end.
if ends >= 922337203685477 then
  return -1
end
return ends - now
