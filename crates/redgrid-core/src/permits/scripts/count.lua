-- count.lua: how many permits a semaphore has. Writes nothing: leases that ended count as left.
--
-- KEYS[1]  left    string
-- KEYS[2]  leases  sorted set; each leased permit by the millisecond of its end
-- Returns  {1, left, leased}
--          {0, 0, leased}   none were set
--
-- Work: O(log n).
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
local left = redis.call('GET', KEYS[1])
local ended = redis.call('ZCOUNT', KEYS[2], '-inf', now)
local leased = redis.call('ZCARD', KEYS[2]) - ended
if not left then
  return {0, 0, leased}
end
return {1, tonumber(left) + ended, leased}
