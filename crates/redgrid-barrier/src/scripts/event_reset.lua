-- event_reset.lua: reset an event. Behind dedup.lua: it is executed exactly once.
--
-- KEYS[2]  event  hash: see event.lua
-- Answers  {1} if it was set, {0} if not
--
-- Work: O(1).
local was_set = is_set()
if was_set then
  redis.call('HSET', k[1], 'set', '0')
  redis.call('PEXPIRE', k[1], RETENTION)
end
return answer({was_set and 1 or 0})
