-- extend.lua: sets the lease of a permit, counted from now, regardless of its holder. Appended to
-- dedup.lua.
--
-- KEYS[2]  leases     sorted set; the leased permits, scored by the ends of their leases in ms
-- ARGV[4]  lease      milliseconds from now
-- ARGV[5]  id         of the permit
-- Returns  {1}  set
--          {0}  the id is unknown, or its lease has ended
--
-- Work: O(log n).
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[5]) or 0) <= now then
  return answer({0})
end
-- A server that is out of memory may refuse the first write of a script. A ZREM is never refused,
-- and no write after the first one is. So this ZREM, which removes nothing, is the first write.
redis.call('ZREM', KEYS[2], '')
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[4]), ARGV[5])
return answer({1})
