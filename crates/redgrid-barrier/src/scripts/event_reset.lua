-- event_reset.lua: an event is set no more. Behind once.lua: it acts exactly once.
--
-- KEYS[2]  event  hash; how often it was set is kept for those who wait, for a while
-- Answers  {1} if it was set, {0} if not
--
-- Work: O(1).
local was = field('set')
if was == 1 then
  redis.call('HSET', k[1], 'set', '0')
  redis.call('PEXPIRE', k[1], KEPT)
end
return answer({was})
