-- retain.lua: retain a lock for a while after its holder has released it.
--
-- KEYS[1]  lock     hash; one field, the holder
-- ARGV[1]  holder
-- ARGV[2]  keep     milliseconds from now
-- ARGV[3]  publish  PUBLISH or SPUBLISH; absent if waiters are not notified
-- ARGV[4]  channel  where waiters subscribe: they have seen a longer lease and must poll again
-- Returns  1  the lock ends after `keep`
--          0  it was not held by this holder
--
-- The field `<holder>:kept` replaces the holder: a late renewal or a late retransmission of the
-- acquire does not find its field and changes nothing.
--
-- Work: O(1), writes one key. Sent twice, it returns 1 the second time and changes nothing.
local kept = ARGV[1] .. ':kept'
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return redis.call('HEXISTS', KEYS[1], kept)
end
-- In this order: a full server refuses HSET as the first write, and a hash without fields loses its
-- lifetime.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], kept, '1')
redis.call('HDEL', KEYS[1], ARGV[1])
if ARGV[3] then
  redis.pcall(ARGV[3], ARGV[4], '0')
end
return 1
