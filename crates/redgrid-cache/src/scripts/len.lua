-- len.lua: how many entries a map cache has. Behind packed.lua.
--
-- ARGV[6]  how many that are over are taken out, at most
-- Returns  {how many entries there are, 1 where some of them may be over, or 0, 1 where one is not over for sure, or 0}
--
-- Work: O(ARGV[6] * log n). Sent twice, it counts twice.
local seen = purge(tonumber(ARGV[6]))
if seen > 0 then
  together()
end
local len = redis.call('HLEN', KEYS[1])
local over = redis.call('ZCOUNT', KEYS[2], '-inf', now) + redis.call('ZCOUNT', KEYS[3], '-inf', now)
return {len, seen < tonumber(ARGV[6]) and 0 or 1, len > over and 1 or 0}
