-- give_way.lua: give a lock back at the end of a stretch, while others of the same process wait for it.
--
-- KEYS[1]  lock     hash; one field, the holder
-- KEYS[2]  mark     present while somebody waits who gets no messages
-- ARGV[1]  holder
-- ARGV[2]  publish  PUBLISH or SPUBLISH; absent where nobody is told
-- ARGV[3]  channel  where waiters listen; the message is `0`
-- Returns  {1 + n, waiting}  it was this holder's, and is free; n subscribers were told; waiting is 1 with the mark
--          {1 + n, 2}        the same, but the message was refused; n subscribers did not get it
--          {0, 0}            it was not this holder's
--
-- Work: O(1), writes one key. Sent twice, it answers {0, 0} the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return {0, 0}
end
local told = ARGV[2] and redis.pcall(ARGV[2], ARGV[3], '0') or 0
if type(told) == 'number' then
  return {told + 1, redis.call('EXISTS', KEYS[2])}
end
-- Free already: a refused message does not undo it. Who would have heard it finds out by its poll; without a count it is two.
local listeners = redis.pcall('PUBSUB', ARGV[2] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[3])
return {1 + (listeners[2] or 2), 2}
