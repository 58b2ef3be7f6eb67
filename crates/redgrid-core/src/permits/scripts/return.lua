-- return.lua: give one leased permit back by its id, whoever has it. Behind once.lua.
--
-- KEYS[2]  left     string; how many permits are left
-- KEYS[3]  leases   sorted set; each leased permit by the millisecond of its end
-- ARGV[4]  id
-- ARGV[5]  publish, [6] channel   how those who wait are told; the message is how many are left
-- Returns  {1}   given back
--          {0}   its lease was over, and nobody had taken it back: given back now
--          {-1}  not known: given back before, or long over
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
-- Not refused for want of memory: servers refuse only a script's first write.
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
