-- drain.lua: takes all available permits, without leases. Appended to dedup.lua.
--
-- KEYS[2]  left  string; the number of available permits; its lifetime is not changed
-- Returns  {taken}
--
-- Work: O(1), writes one key.
local left = tonumber(redis.call('GET', KEYS[2]) or 0)
if left > 0 then
  redis.call('DECRBY', KEYS[2], string.format('%.0f', left))
end
return answer({left > 0 and left or 0})
