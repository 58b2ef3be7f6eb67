-- drain.lua: take all permits that are left, without a lease. Behind once.lua.
--
-- KEYS[2]  left  string; how many permits are left; its lifetime stays
-- Returns  {taken}
--
-- Work: O(1), writes one key.
local left = tonumber(redis.call('GET', KEYS[2]) or 0)
if left > 0 then
  redis.call('DECRBY', KEYS[2], string.format('%.0f', left))
end
return answer({left > 0 and left or 0})
