-- change.lua: changes one key of a map on a condition, and publishes the change to all caches.
--
-- KEYS[1]  map
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  topic
-- ARGV[3]  message
-- ARGV[4]  condition  always; absent: the key is not in the map; present: it is; equal: it has the
--                     expected value
-- ARGV[5]  1 to return the previous value
-- ARGV[6]  key
-- ARGV[7]  1 to set the key, 0 to remove it
-- ARGV[8]  new value
-- ARGV[9]  expected value
-- Returns  {1 changed or 0 not, the previous value or nil}
--
-- The message is published first: a user without permission to publish changes nothing, and a
-- superfluous message does no harm.
-- Work: O(1) plus the sizes of the values. Not to be sent twice: another client may have changed
-- the key meanwhile.
local current = redis.call('HGET', KEYS[1], ARGV[6])
local returned = ARGV[5] == '1' and current
local condition = ARGV[4]
if (condition == 'absent' and current) or (condition == 'present' and not current) or (condition == 'equal' and current ~= ARGV[9])
  or (ARGV[7] == '0' and not current) then
  return {0, returned}
end
redis.call(ARGV[1], ARGV[2], ARGV[3])
if ARGV[7] == '1' then
  redis.call('HSET', KEYS[1], ARGV[6], ARGV[8])
else
  redis.call('HDEL', KEYS[1], ARGV[6])
end
return {1, returned}
