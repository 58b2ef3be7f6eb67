-- rw_evict.lua: take the read of one holder away, and notify its client. Other readers stay.
--
-- KEYS[1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2]  level    string; present while the reader's lease lasts
-- KEYS[3]  waiting  hash: the clients of whom a writer waits
-- ARGV[1]  reader
-- ARGV[2]  notices  channel of a client's notices, up to the client's id; `}` follows the id
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where waiters listen; the message is `0`
-- Returns  1  the reader was in, and is not any more
--          0  it was not
--
-- Work: O(1), writes two keys. Sent twice, it answers 0 the second time.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('DEL', KEYS[2])
local client = string.match(ARGV[1], '^(%x+%-%x+%-%x+%-%x+%-%x+):')
if client then
  -- Evicted already: a notice that can not be sent does not undo it. The holder learns of it at its next renewal.
  redis.pcall('PUBLISH', ARGV[2] .. client .. '}', ARGV[1])
end
local left = redis.call('HLEN', KEYS[1]) - redis.call('HEXISTS', KEYS[1], 'mode')
if left == 0 then
  redis.call('DEL', KEYS[1])
elseif left > 1 or redis.pcall('EXISTS', KEYS[3]) ~= 1 then
  return 1
end
-- Free, or the last reader may wait to write. A message that may not be sent does not undo it: waiters poll.
redis.pcall(ARGV[3], ARGV[4], '0')
return 1
