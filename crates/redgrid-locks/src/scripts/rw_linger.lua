-- rw_linger.lua: leave a read-write lock taken for a while, though its holder has gone.
--
-- KEYS[1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2]  level    string of a reader; a writer has none, and names its lock again
-- ARGV[1]  holder
-- ARGV[2]  keep     milliseconds from now
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where waiters listen: they were told a longer time and are to look again
-- Returns  1  it ends after `keep`; later where others are in
--          0  it was not this holder's
--
-- Work: O(1), writes two keys. Sent twice, it keeps a little longer.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if KEYS[2] ~= KEYS[1] then
  redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
end
if redis.call('HLEN', KEYS[1]) <= 2 or redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.pcall(ARGV[3], ARGV[4], '0')
return 1
