-- linger.lua: leave a lock taken for a while, though its holder has gone.
--
-- KEYS[1]  lock     hash; one field, the holder
-- ARGV[1]  holder
-- ARGV[2]  keep     milliseconds from now
-- ARGV[3]  publish  PUBLISH or SPUBLISH; absent where nobody is told
-- ARGV[4]  channel  where waiters listen: they were told a longer time and are to look again
-- Returns  1  it ends after `keep`
--          0  it was not this holder's
--
-- Work: O(1), writes one key. Sent twice, it keeps a little longer.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[3] then
  redis.pcall(ARGV[3], ARGV[4], '0')
end
return 1
