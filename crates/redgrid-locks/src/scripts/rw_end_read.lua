-- rw_end_read.lua: leave a read-write lock as a reader. The last one frees it, and tells those who wait.
--
-- KEYS[1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2]  level    string; present while the reader's lease lasts
-- KEYS[3]  waiting  hash: the clients of whom a writer waits
-- ARGV[1]  reader
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  where waiters listen; the message is `0`
-- Returns  1 + n  it was this reader's; n subscribers were told that it is free
--          0      it was not this reader's
--
-- Work: O(1), writes two keys. Sent twice, it answers 0 the second time. The lock keeps its lifetime while others are in: theirs
-- are in keys that are not ours to look at.
local was = redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
if was == 0 then
  return 0
end
local left = redis.call('HLEN', KEYS[1]) - redis.call('HEXISTS', KEYS[1], 'mode')
if left == 0 then
  redis.call('DEL', KEYS[1])
elseif left > 1 or redis.pcall('EXISTS', KEYS[3]) ~= 1 then
  return 1
end
-- Free, or the last one inside may wait to write. A message that may not be sent does not undo it: waiters look by themselves.
local told = redis.pcall(ARGV[2], ARGV[3], '0')
return type(told) == 'number' and told + 1 or 1
