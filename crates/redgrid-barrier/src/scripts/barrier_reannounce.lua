-- barrier_reannounce.lua: announce an opened round to a server that may have lost it in a failover.
--
-- KEYS[1]  barrier  hash
-- KEYS[2]  waiting  sorted set
-- ARGV[1]  round    that has opened
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  for the notification
-- Returns  1: the server had lost the round; 0: it still had it
--
-- Work: O(1). Sent twice, it has the same effect.
if field('round') >= tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', k[1], 'round', ARGV[1])
redis.call('DEL', k[2])
extend_ttl(0)
redis.pcall(ARGV[2], ARGV[3], ARGV[1])
return 1
