-- add.lua: changes the number of available permits. Appended to dedup.lua.
--
-- KEYS[2]  left      string; the number of available permits; its lifetime is not changed
-- ARGV[4]  publish, [5] channel   the command and channel that wake waiters; the message is `left`
-- ARGV[6]  permits   number of permits to add; negative to take permits away
-- ARGV[7]  exists    `1` to change nothing if no permits were set
-- Returns  {1, left}
--          {0, 0}    no permits were set
--
-- Work: O(1), writes one key.
if ARGV[7] == '1' and redis.call('EXISTS', KEYS[2]) == 0 then
  return answer({0, 0})
end
local left = redis.call('INCRBY', KEYS[2], ARGV[6])
if left > 0 then
  redis.pcall(ARGV[4], ARGV[5], string.format('%.0f', left))
end
return answer({1, left})
