-- event_set.lua: set an event. Behind once.lua: it acts exactly once.
--
-- KEYS[2]  event     hash
-- ARGV[4]  lifetime  milliseconds after which it is not set any more; 0: none
-- ARGV[5]  publish   PUBLISH or SPUBLISH
-- ARGV[6]  channel   where that is told
-- Answers  {1} if it was not set before, {0} if it was: then its lifetime begins anew
--
-- Work: O(1).
local new = field('set') == 0
if new then
  redis.call('HSET', k[1], 'set', '1')
  redis.call('HINCRBY', k[1], 'times', 1)
end
if ARGV[4] == '0' then
  redis.call('PERSIST', k[1])
else
  redis.call('PEXPIRE', k[1], ARGV[4])
end
if new then
  redis.call(ARGV[5], ARGV[6], '1')
end
return answer({new and 1 or 0})
