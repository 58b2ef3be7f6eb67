-- leader_resign.lua: release the leadership, and notify candidates and observers.
--
-- KEYS[1]  lock              hash; one field, the holder
-- KEYS[2]  leader            hash: the leader's proclamation
-- KEYS[3]  poll waiter flag  present while a candidate without a subscription waits
-- ARGV[1]  holder
-- ARGV[2]  publish           PUBLISH or SPUBLISH
-- ARGV[3]  channel           where candidates subscribe; the message is `0`
-- ARGV[4]  observers         channel where observers subscribe; the message is `0`
-- Returns  {1 + n, waiting}  it was this holder's, and is free; n candidates were notified;
--                            `waiting` is 1 if the flag is present
--          {1 + n, 2}        the same, but the message was rejected; n candidates did not get it
--          {0, 0}            not held by this holder
--
-- Work: O(1), writes two keys. Sent twice, it returns {0, 0} the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return {0, 0}
end
-- The lock is already free: failures from here on do not undo the release.
if redis.pcall('HGET', KEYS[2], 'holder') == ARGV[1] then
  redis.pcall('DEL', KEYS[2])
end
redis.pcall(ARGV[2], ARGV[4], '0')
local receivers = redis.pcall(ARGV[2], ARGV[3], '0')
if type(receivers) == 'number' then
  return {receivers + 1, redis.pcall('EXISTS', KEYS[3]) == 1 and 1 or 0}
end
-- Subscribers find the free lock by polling. If they cannot be counted, two are assumed.
local subscribers = redis.pcall('PUBSUB', ARGV[2] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[3])
return {1 + (subscribers[2] or 2), 2}
