-- rw_withdraw.lua: no writer of a client waits any more; the readers who stepped back are told.
--
-- KEYS[1]  waiting  hash: each client of whom a writer waits, since when (µs) and how long it is believed (ms)
-- KEYS[2]  lock     hash: `mode`, and a field for each holder
-- ARGV[1]  client   its id
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  where waiters listen; the message is `1`, which wakes all readers
-- Returns  1 it was said that one waits; 0 it was not
--
-- Work: O(1), writes one key. Sent twice, it answers 0 the second time.
local said = redis.call('HDEL', KEYS[1], ARGV[1])
if said == 1 and redis.call('HGET', KEYS[2], 'mode') ~= 'write' then
  redis.pcall(ARGV[2], ARGV[3], '1')
end
return said
