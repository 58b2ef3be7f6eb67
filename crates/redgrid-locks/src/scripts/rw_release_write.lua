-- rw_release_write.lua: release a write, and notify the waiters. Its holder may still read.
--
-- KEYS[1]  lock              hash: `mode`, and a field for each holder
-- KEYS[2]  poll waiter flag  present while a waiter without a subscription waits
-- ARGV[1]  writer            ends with `:write`
-- ARGV[2]  publish           PUBLISH or SPUBLISH
-- ARGV[3]  channel           where waiters subscribe; the message is `1`, which wakes all readers
-- Returns  {1 + n, waiting}  it was this writer's; n subscribers were notified; `waiting` is 1 if
--                            the flag is present
--          {1 + n, 2}        the same, but the message was rejected; n subscribers did not get it
--          {0, 0}            not held by this writer
--
-- Work: O(1), writes one key. Sent twice, it returns {0, 0} the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return {0, 0}
end
if redis.call('HLEN', KEYS[1]) > 1 then
  redis.call('HSET', KEYS[1], 'mode', 'read')
else
  redis.call('DEL', KEYS[1])
end
local receivers = redis.pcall(ARGV[2], ARGV[3], '1')
if type(receivers) == 'number' then
  return {receivers + 1, redis.pcall('EXISTS', KEYS[2]) == 1 and 1 or 0}
end
-- The write is already released: a rejected message does not undo the release. Subscribers find the
-- lock by polling. If they cannot be counted, two are assumed.
local subscribers = redis.pcall('PUBSUB', ARGV[2] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[3])
return {1 + (subscribers[2] or 2), 2}
