-- rw_withdraw.lua: no writer of a client waits any more; the readers who stepped back are told.
--
-- KEYS[1]  waiting  hash: who has a writer that waits, since when (µs), how long it is believed (ms), the number of the word
-- KEYS[2]  lock     hash: `mode`, and a field for each holder
-- ARGV[1]  mark     its field: the client's id, or the reader that was to write
-- ARGV[2]  number   a word with a higher one was said later, by another who waits, and stays
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where waiters listen; the message is `1`, which wakes all readers
-- Returns  1 it was said that one waits; 0 it was not, or was said anew
--
-- Work: O(1), writes one key. Sent twice, it answers 0 the second time.
local word = redis.call('HGET', KEYS[1], ARGV[1])
local number = word and string.match(word, '^%d+ %d+ (%d+)$')
if not word or (number and tonumber(number) > tonumber(ARGV[2])) then
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('HGET', KEYS[2], 'mode') ~= 'write' then
  redis.pcall(ARGV[3], ARGV[4], '1')
end
return 1
