-- leader_resign.lua: give leadership back, and tell candidates and observers.
--
-- KEYS[1]  lock      hash; one field, the holder
-- KEYS[2]  leader    hash: what the leader has proclaimed
-- KEYS[3]  mark      present while a candidate waits who gets no messages
-- ARGV[1]  holder
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  channel   where candidates listen; the message is `0`
-- ARGV[4]  observed  where observers listen; the message is `0`
-- Returns  {1 + n, waiting}  it was this holder's, and is free; n candidates were told; waiting is 1 with the mark
--          {1 + n, 2}        the same, but the message was refused; n candidates did not get it
--          {0, 0}            it was not this holder's
--
-- Work: O(1), writes two keys. Sent twice, it answers {0, 0} the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return {0, 0}
end
-- Free already: what can not be told or tidied does not undo it.
if redis.pcall('HGET', KEYS[2], 'holder') == ARGV[1] then
  redis.pcall('DEL', KEYS[2])
end
redis.pcall(ARGV[2], ARGV[4], '0')
local told = redis.pcall(ARGV[2], ARGV[3], '0')
if type(told) == 'number' then
  return {told + 1, redis.pcall('EXISTS', KEYS[3]) == 1 and 1 or 0}
end
-- Who would have heard it finds out by its poll; without a count it is two.
local listeners = redis.pcall('PUBSUB', ARGV[2] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[3])
return {1 + (listeners[2] or 2), 2}
