-- release.lua: give a lock back, and tell those who wait.
--
-- KEYS[1]  lock     hash; one field, the holder
-- ARGV[1]  holder
-- ARGV[2]  channel  where waiters listen; the message is `0`; absent where nobody is told
-- ARGV[3]  publish  SPUBLISH; absent where it is PUBLISH
-- Returns  1 + n       it was this holder's, and is free; n subscribers were told
--          {1 + n, 2}  the same, but the message was refused; n subscribers did not get it
--          0           it was not this holder's
--
-- Work: O(1), writes one key. Sent twice, it answers 0 the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if not ARGV[2] then
  return 1
end
local told = redis.pcall(ARGV[3] or 'PUBLISH', ARGV[2], '0')
if type(told) == 'number' then
  return told + 1
end
-- Free already: a refused message does not undo it. Who would have heard it finds out by its poll; without a count it is two.
local listeners = redis.pcall('PUBSUB', ARGV[3] and 'SHARDNUMSUB' or 'NUMSUB', ARGV[2])
return {1 + (listeners[2] or 2), 2}
