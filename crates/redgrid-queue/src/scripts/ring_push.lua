-- ring_push.lua: adds elements at the end of a ring, and removes the oldest beyond its capacity.
--
-- KEYS[1]  list
-- KEYS[2]  string: the capacity
-- ARGV     elements, up to 500
-- Returns  {length, number of removed elements}; nothing if no capacity is set
--
-- The list gets the TTL of the capacity when it is created, so neither key outlives the other.
--
-- Work: O(1) for each. Not to be sent twice: the elements would be added twice.
local capacity = tonumber(redis.call('GET', KEYS[2]) or '')
if not capacity then
  return false
end
local ttl = redis.call('EXISTS', KEYS[1]) == 0 and redis.call('PTTL', KEYS[2]) or -1
local length = redis.call('RPUSH', KEYS[1], unpack(ARGV))
if ttl >= 0 then
  redis.pcall('PEXPIRE', KEYS[1], math.max(ttl, 1))
end
if length <= capacity then
  return {length, 0}
end
local trimmed = redis.pcall('LTRIM', KEYS[1], -capacity, -1)
if trimmed.err then
  -- A user without the right to trim gets an error: undo the push.
  redis.call('RPOP', KEYS[1], #ARGV)
  return trimmed
end
return {capacity, length - capacity}
