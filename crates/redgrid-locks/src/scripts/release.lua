-- release.lua: give a lock back, and tell those who wait.
--
-- KEYS[1]  lock     hash; one field, the holder
-- ARGV[1]  holder
-- ARGV[2]  channel  where waiters listen; the message is `0`; absent where nobody is told
-- ARGV[3]  publish  SPUBLISH; absent where it is PUBLISH
-- Returns  1 + n  it was this holder's, and is free; n subscribers were told
--          0      it was not this holder's
--
-- Work: O(1), writes one key. Sent twice, it answers 0 the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if not ARGV[2] then
  return 1
end
-- Free already: a message that may not be sent does not undo it, and waiters look by themselves.
local told = redis.pcall(ARGV[3] or 'PUBLISH', ARGV[2], '0')
return type(told) == 'number' and told + 1 or 1
