-- ring_capacity.lua: how many elements a ring has room for; as many go from its front as are too many.
--
-- KEYS[1]  list
-- KEYS[2]  string: how many elements it has room for
-- ARGV[1]  capacity, 1 or more
-- Returns  how many went
--
-- Work: O(those that go). May be sent twice: the second finds it so.
local length = redis.call('LLEN', KEYS[1])
redis.call('SET', KEYS[2], ARGV[1], 'KEEPTTL')
local room = tonumber(ARGV[1])
if length <= room then
  return 0
end
redis.call('LTRIM', KEYS[1], -room, -1)
return length - room
