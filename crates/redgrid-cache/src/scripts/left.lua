-- left.lua: how long keys of a map cache will live if nobody uses them. Behind packed.lua.
--
-- ARGV[6…] keys, 500 at most
-- Returns  of each the milliseconds; -1 where it has no end, -2 where it is not there
--
-- Work: O(keys); only reads.
local left = {}
for i = 6, #ARGV do
  local value, idle = live(ARGV[i])
  local ends = value and redis.call('ZSCORE', KEYS[2], ARGV[i])
  local unused = value and idle ~= 0 and redis.call('ZSCORE', KEYS[3], ARGV[i])
  local first = math.min(ends and tonumber(ends) or math.huge, unused and tonumber(unused) or math.huge)
  if not value then
    left[#left + 1] = -2
  elseif first == math.huge then
    left[#left + 1] = -1
  else
    left[#left + 1] = first - now
  end
end
return left
