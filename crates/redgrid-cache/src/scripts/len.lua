-- len.lua: how many entries a map cache has. Behind packed.lua.
--
-- ARGV[6]  how many that are over are taken out, at most
-- Returns  {how many entries there are, 1 where some of them may be over, or 0}
--
-- Work: O(ARGV[6] * log n). Sent twice, it counts twice.
local seen = purge(tonumber(ARGV[6]))
return {redis.call('HLEN', KEYS[1]), seen < tonumber(ARGV[6]) and 0 or 1}
