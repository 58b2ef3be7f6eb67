-- len.lua: counts the entries of a map cache. Appended to packed.lua.
--
-- ARGV[6]  the maximum number of expired entries to remove
-- Returns  {number of entries; 1 if some of them may be expired, otherwise 0; 1 if one of them is
--          certainly not expired, otherwise 0}
--
-- Work: O(ARGV[6] * log n). Sent twice, it counts twice.
local purged = purge(tonumber(ARGV[6]))
if purged > 0 then
  sync_expiry()
end
local len = redis.call('HLEN', KEYS[1])
local expired = redis.call('ZCOUNT', KEYS[2], '-inf', now) + redis.call('ZCOUNT', KEYS[3], '-inf', now)
return {len, purged < tonumber(ARGV[6]) and 0 or 1, len > expired and 1 or 0}
