-- release_yielding.lua: release a lock at the end of the hand-over window, while tasks of the
-- process wait.
--
-- KEYS[1]  lock              hash; one field, the holder
-- KEYS[2]  poll waiter flag  present while a waiter without a subscription waits
-- ARGV[1]  holder
-- ARGV[2]  publish           PUBLISH or SPUBLISH; absent if releases are not published
-- ARGV[3]  channel           where waiters subscribe; the message is `0`
-- Returns  {1 + n, waiting}  it was this holder's, and is free; n subscribers were notified;
--                            `waiting` is 1 if the flag is present
--          {1 + n, 2}        the same, but the message was rejected; n subscribers did not get it
--          {0, 0}            not held by this holder
--
-- Work: O(1), writes one key. Sent twice, it returns {0, 0} the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return {0, 0}
end
local receivers = ARGV[2] and redis.pcall(ARGV[2], ARGV[3], '0') or 0
if type(receivers) == 'number' then
  return {receivers + 1, redis.call('EXISTS', KEYS[2])}
end
-- The lock is already free: a rejected message does not undo the release. Subscribers find the free
-- lock by polling. If they cannot be counted, two are assumed.
local subscribers = redis.pcall('PUBSUB', ARGV[2] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[3])
return {1 + (subscribers[2] or 2), 2}
