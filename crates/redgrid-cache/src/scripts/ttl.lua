-- ttl.lua: reads how long keys of a map cache will live without accesses. Appended to packed.lua.
--
-- ARGV[6…] keys, 500 at most
-- Returns  for each key the milliseconds; -1 without an expiry, -2 if it does not exist
--
-- Work: O(keys); read-only.
local ttls = {}
for i = 6, #ARGV do
  local value, idle = read_live(ARGV[i])
  local expiry = value and redis.call('ZSCORE', KEYS[2], ARGV[i])
  local idle_expiry = value and idle ~= 0 and redis.call('ZSCORE', KEYS[3], ARGV[i])
  local first = math.min(expiry and tonumber(expiry) or math.huge, idle_expiry and tonumber(idle_expiry) or math.huge)
  if not value then
    ttls[#ttls + 1] = -2
  elseif first == math.huge then
    ttls[#ttls + 1] = -1
  else
    ttls[#ttls + 1] = first - now
  end
end
return ttls
