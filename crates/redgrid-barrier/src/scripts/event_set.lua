-- event_set.lua: set an event. Behind dedup.lua: it is executed exactly once.
--
-- KEYS[2]  event     hash: see event.lua
-- ARGV[4]  lifetime  milliseconds after which it is no longer set; 0: none
-- ARGV[5]  publish   PUBLISH or SPUBLISH
-- ARGV[6]  channel   for the notification
-- Answers  {1} if it was not set before, {0} if it was: then its lifetime begins anew
--
-- Work: O(1).
local is_new = not is_set()
local lifetime = tonumber(ARGV[4])
redis.call('HSET', k[1], 'set', '1', 'until', string.format('%.0f', lifetime > 0 and now + lifetime or 0))
if is_new then
  redis.call('HINCRBY', k[1], 'times', 1)
end
if lifetime > 0 then
  redis.call('PEXPIRE', k[1], lifetime + RETENTION)
else
  redis.call('PERSIST', k[1])
end
if is_new then
  redis.pcall(ARGV[5], ARGV[6], '1')
end
return answer({is_new and 1 or 0})
