-- count.lua: returns the numbers of available and leased permits of a semaphore. A permit whose
-- lease has expired counts as available.
--
-- KEYS[1]  left    string; the number of available permits
-- KEYS[2]  leases  sorted set; the leased permits, scored by the ends of their leases in ms
-- Returns  {1, left, leased}
--          {0, 0, leased}   no permits were set
--
-- Work: O(log n), writes nothing.
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
local left = redis.call('GET', KEYS[1])
local expired = redis.call('ZCOUNT', KEYS[2], '-inf', now)
local leased = redis.call('ZCARD', KEYS[2]) - expired
if not left then
  return {0, 0, leased}
end
return {1, tonumber(left) + expired, leased}
