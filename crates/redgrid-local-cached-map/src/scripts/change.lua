-- change.lua: a change of one key of a map, told to all who keep it.
--
-- KEYS[1]  map
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  topic
-- ARGV[3]  message
-- ARGV[4]  when     always; absent, present: if the key is not, is in the map; equal: if it has what is expected
-- ARGV[5]  1 where it is to be told what the key had
-- ARGV[6]  key
-- ARGV[7]  1 where it is to be set, 0 where it is to be removed
-- ARGV[8]  what it is set to
-- ARGV[9]  what is expected
-- Returns  {1 changed or 0 not, what the key had, or nothing}
--
-- The message goes first: who may not publish changes nothing, and a message too many does no harm.
-- Work: O(1) and the sizes. Not to be sent twice: others may have changed it meanwhile.
local has = redis.call('HGET', KEYS[1], ARGV[6])
local told = ARGV[5] == '1' and has
local when = ARGV[4]
if (when == 'absent' and has) or (when == 'present' and not has) or (when == 'equal' and has ~= ARGV[9])
  or (ARGV[7] == '0' and not has) then
  return {0, told}
end
redis.call(ARGV[1], ARGV[2], ARGV[3])
if ARGV[7] == '1' then
  redis.call('HSET', KEYS[1], ARGV[6], ARGV[8])
else
  redis.call('HDEL', KEYS[1], ARGV[6])
end
return {1, told}
