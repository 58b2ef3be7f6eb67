-- ring_push.lua: elements at the end of a ring; as many go from its front as are too many.
--
-- KEYS[1]  list
-- KEYS[2]  string: how many elements it has room for
-- ARGV     elements, 500 at most
-- Returns  {how many there are, how many went}; nothing where no capacity is set
--
-- The first elements get the end of life that the capacity has: neither key outlives the other.
--
-- Work: O(1) for each. Not to be sent twice: they would be in twice.
local room = tonumber(redis.call('GET', KEYS[2]) or '')
if not room then
  return false
end
local left = redis.call('EXISTS', KEYS[1]) == 0 and redis.call('PTTL', KEYS[2]) or -1
local length = redis.call('RPUSH', KEYS[1], unpack(ARGV))
if left >= 0 then
  redis.pcall('PEXPIRE', KEYS[1], math.max(left, 1))
end
if length <= room then
  return {length, 0}
end
local trimmed = redis.pcall('LTRIM', KEYS[1], -room, -1)
if trimmed.err then
  -- Who may not trim has not pushed.
  redis.call('RPOP', KEYS[1], #ARGV)
  return trimmed
end
return {room, length - room}
