-- return.lua: give one leased permit back by its id, whoever has it.
--
-- KEYS[1]  left     string; how many permits are left
-- KEYS[2]  leases   sorted set; each leased permit by the millisecond of its end
-- ARGV[1]  id
-- ARGV[2]  publish, [3] channel   how those who wait are told; the message is how many are left
-- Returns  1  given back
--          0  its lease was over, and nobody had taken it back: given back now
--          -1 not known: given back before, or long over
--
-- Work: O(log n). Sent twice, it answers -1 the second time.
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
local ends = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ends then
  return -1
end
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 1 then
  local left = redis.call('INCRBY', KEYS[1], 1)
  if left > 0 then
    redis.pcall(ARGV[2], ARGV[3], string.format('%.0f', left))
  end
end
return tonumber(ends) > now and 1 or 0
