-- rw_end_write.lua: leave a read-write lock as its writer, and tell those who wait. Its holder may be reading still.
--
-- KEYS[1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2]  mark     present while somebody waits who gets no messages
-- ARGV[1]  writer   ends with `:write`
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  where waiters listen; the message is `1`, which wakes all readers
-- Returns  {1 + n, waiting}  it was this writer's; n subscribers were told; waiting is 1 with the mark
--          {1 + n, 2}        the same, but the message was refused; n subscribers did not get it
--          {0, 0}            it was not this writer's
--
-- Work: O(1), writes one key. Sent twice, it answers {0, 0} the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return {0, 0}
end
if redis.call('HLEN', KEYS[1]) > 1 then
  redis.call('HSET', KEYS[1], 'mode', 'read')
else
  redis.call('DEL', KEYS[1])
end
local told = redis.pcall(ARGV[2], ARGV[3], '1')
if type(told) == 'number' then
  return {told + 1, redis.pcall('EXISTS', KEYS[2]) == 1 and 1 or 0}
end
-- Done already: a refused message does not undo it. Who would have heard it finds out by its poll; without a count it is two.
local listeners = redis.pcall('PUBSUB', ARGV[2] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[3])
return {1 + (listeners[2] or 2), 2}
