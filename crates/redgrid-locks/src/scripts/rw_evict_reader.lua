-- rw_evict_reader.lua: remove the read of one holder, and notify its client. Other readers stay.
--
-- KEYS[1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2]  timeout  string; present while the reader's lease lasts
-- KEYS[3]  waiting  hash: the clients with a waiting writer
-- ARGV[1]  reader
-- ARGV[2]  notices  prefix of a client's notice channel; the client's id and `}` follow
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where waiters subscribe; the message is `0`
-- Returns  1  the reader was removed
--          0  the lock was free
--          2  it did not hold the lock, but others do
--
-- Work: O(1), writes two keys. Sent twice, it returns 0 or 2 the second time.
-- `mode` is no holder.
if ARGV[1] == 'mode' or redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return redis.call('EXISTS', KEYS[1]) == 0 and 0 or 2
end
redis.call('DEL', KEYS[2])
local client = string.match(ARGV[1], '^(%x+%-%x+%-%x+%-%x+%-%x+):')
if client then
  -- The reader is already evicted: a notice that cannot be sent does not undo the eviction. The
  -- holder notices the loss at its next renewal.
  redis.pcall('PUBLISH', ARGV[2] .. client .. '}', ARGV[1])
end
local left = redis.call('HLEN', KEYS[1]) - redis.call('HEXISTS', KEYS[1], 'mode')
if left == 0 then
  redis.call('DEL', KEYS[1])
elseif left > 1 or redis.pcall('EXISTS', KEYS[3]) ~= 1 then
  return 1
end
-- The lock is free, or the last reader may be upgrading. A rejected message does not undo the
-- eviction: waiters poll.
redis.pcall(ARGV[3], ARGV[4], '0')
return 1
