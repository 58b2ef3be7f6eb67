-- release.lua: release a lock, and notify the waiters.
--
-- KEYS[1]  lock     hash; one field, the holder
-- ARGV[1]  holder
-- ARGV[2]  channel  where waiters subscribe; the message is `0`; absent if releases are not
--                   published
-- ARGV[3]  publish  SPUBLISH; absent for PUBLISH
-- Returns  1 + n       it was this holder's, and is free; n subscribers were notified
--          {1 + n, 2}  the same, but the message was rejected; n subscribers did not get it
--          0           not held by this holder
--
-- Work: O(1), writes one key. Sent twice, it returns 0 the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if not ARGV[2] then
  return 1
end
local receivers = redis.pcall(ARGV[3] or 'PUBLISH', ARGV[2], '0')
if type(receivers) == 'number' then
  return receivers + 1
end
-- The lock is already free: a rejected message does not undo the release. Subscribers find the free
-- lock by polling. If they cannot be counted, two are assumed.
local subscribers = redis.pcall('PUBSUB', ARGV[3] and 'SHARDNUMSUB' or 'NUMSUB', ARGV[2])
return {1 + (subscribers[2] or 2), 2}
