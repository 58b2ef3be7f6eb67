-- ring_capacity.lua: sets the capacity of a ring, and removes the oldest elements beyond it.
--
-- KEYS[1]  list
-- KEYS[2]  string: the capacity
-- ARGV[1]  capacity, 1 or more
-- Returns  how many elements were removed
--
-- Work: O(removed). May be sent twice: the second execution changes nothing.
local length = redis.call('LLEN', KEYS[1])
redis.call('SET', KEYS[2], ARGV[1], 'KEEPTTL')
local capacity = tonumber(ARGV[1])
if length <= capacity then
  return 0
end
redis.call('LTRIM', KEYS[1], -capacity, -1)
return length - capacity
