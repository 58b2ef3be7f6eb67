-- extend.lua: set the lease of a permit from now on, whoever has it. Behind once.lua.
--
-- KEYS[2]  leases     sorted set; each leased permit by the millisecond of its end
-- ARGV[4]  lease      milliseconds
-- ARGV[5]  id
-- Returns  {1}  set
--          {0}  not known, or its lease is over
--
-- Work: O(log n).
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[5]) or 0) <= now then
  return answer({0})
end
-- Servers refuse for want of memory only a script's first write.
redis.call('ZREM', KEYS[2], '')
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[4]), ARGV[5])
return answer({1})
