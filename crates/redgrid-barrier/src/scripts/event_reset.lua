-- event_reset.lua: an event is set no more. Behind once.lua: it acts exactly once.
--
-- KEYS[2]  event  hash: see event.lua
-- Answers  {1} if it was set, {0} if not
--
-- Work: O(1).
local was = is_set()
if was then
  redis.call('HSET', k[1], 'set', '0')
  redis.call('PEXPIRE', k[1], KEPT)
end
return answer({was and 1 or 0})
