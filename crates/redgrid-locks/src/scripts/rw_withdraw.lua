-- rw_withdraw.lua: withdraw the announcement of a waiting writer, and wake the readers behind it.
--
-- KEYS[1]  waiting  hash: waiter → start of its wait (µs), end of the announcement (ms),
--                   number of the announcement
-- KEYS[2]  lock     hash: `mode`, and a field for each holder
-- ARGV[1]  waiter   field of the hash: the client's id, or the reader that upgraded
-- ARGV[2]  number   of the announcement; one with a higher number is another waiter's and stays
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where waiters subscribe; the message is `1`, which wakes all readers
-- Returns  1 the announcement was withdrawn; 0 there was none, or a later one
--
-- Work: O(1), writes one key. Sent twice, it returns 0 the second time.
local announcement = redis.call('HGET', KEYS[1], ARGV[1])
local number = announcement and string.match(announcement, '^%d+ %d+ (%d+)$')
if not announcement or (number and tonumber(number) > tonumber(ARGV[2])) then
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('HGET', KEYS[2], 'mode') ~= 'write' then
  redis.pcall(ARGV[3], ARGV[4], '1')
end
return 1
