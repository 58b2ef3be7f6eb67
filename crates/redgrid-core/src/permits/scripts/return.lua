-- return.lua: returns one leased permit by its id, regardless of its holder. Appended to dedup.lua.
--
-- KEYS[2]  left     string; the number of available permits
-- KEYS[3]  leases   sorted set; the leased permits, scored by the ends of their leases in ms
-- ARGV[4]  id       of the permit
-- ARGV[5]  publish, [6] channel   the command and channel that wake waiters; the message is `left`
-- Returns  {1}   returned, before its lease ended
--          {0}   returned; the lease had ended, but the permit still counted as held
--          {-1}  the id is unknown: the permit was returned before, or became available after its
--                lease had ended
--
-- Work: O(log n).
local ends = redis.call('ZSCORE', KEYS[3], ARGV[4])
if not ends then
  return answer({-1})
end
local left = redis.call('GET', KEYS[2])
if left and not tonumber(left) then
  return redis.error_reply('WRONGTYPE not a number of permits')
end
-- A server that is out of memory may refuse the first write of a script. A ZREM is never refused,
-- and no write after the first one is. So this ZREM, which removes nothing, is the first write.
redis.call('ZREM', KEYS[3], '')
if left then
  left = redis.call('INCRBY', KEYS[2], 1)
  if left > 0 then
    redis.pcall(ARGV[5], ARGV[6], string.format('%.0f', left))
  end
end
redis.call('ZREM', KEYS[3], ARGV[4])
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
return answer({tonumber(ends) > now and 1 or 0})
