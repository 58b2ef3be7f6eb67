-- barrier_affirm.lua: make a server, which may have lost it in a failover, know that a round has opened.
--
-- KEYS[1]  barrier  hash
-- KEYS[2]  waiting  sorted set
-- ARGV[1]  round    that has opened
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  where that is told
-- Returns  1 if it was lost, 0 if it was known
--
-- Work: O(1). Sent twice, it says the same.
if field('round') >= tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', k[1], 'round', ARGV[1])
redis.call('DEL', k[2])
keep(0)
redis.pcall(ARGV[2], ARGV[3], ARGV[1])
return 1
