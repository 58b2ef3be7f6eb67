-- rw_release_read.lua: release a read. The last reader frees the lock and notifies the waiters.
--
-- KEYS[1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2]  timeout  string; present while the reader's lease lasts
-- KEYS[3]  waiting  hash: the clients with a waiting writer
-- ARGV[1]  reader
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  where waiters subscribe; the message is `0`
-- Returns  1 + n  it was this reader's; n subscribers were notified that the lock is free
--          0      not held by this reader
--
-- Work: O(1), writes two keys. Sent twice, it returns 0 the second time. With other holders the
-- lock keeps its lifetime: their leases are in keys whose names this script cannot find.
local released = redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
if released == 0 then
  return 0
end
local left = redis.call('HLEN', KEYS[1]) - redis.call('HEXISTS', KEYS[1], 'mode')
if left == 0 then
  redis.call('DEL', KEYS[1])
elseif left > 1 or redis.pcall('EXISTS', KEYS[3]) ~= 1 then
  return 1
end
-- The lock is free, or the last reader may be upgrading. A rejected message does not undo the
-- release: waiters poll.
local receivers = redis.pcall(ARGV[2], ARGV[3], '0')
return type(receivers) == 'number' and receivers + 1 or 1
