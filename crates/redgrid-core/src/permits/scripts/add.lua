-- add.lua: change how many permits are left, for everybody. Behind once.lua.
--
-- KEYS[2]  left      string; how many permits are left; its lifetime stays
-- ARGV[4]  publish, [5] channel   how those who wait are told; the message is how many are left
-- ARGV[6]  permits   how many more; fewer, where negative
-- ARGV[7]  exists    `1`: only where permits were set
-- Returns  {1, left}
--          {0, 0}    none were set
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
