-- extend.lua: set the lease of permits from now on.
--
-- KEYS[1]  leases     sorted set; each leased permit by the millisecond of its end
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  lease      milliseconds
-- ARGV[3…] ids
-- Returns  `1` or `0` for each id: whether it is there, and its lease not over
--          nil: too late
--
-- Work: O(ids). Sent twice, it sets twice.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
if micros > tonumber(ARGV[1]) then
  return false
end
local now = math.floor(micros / 1000)
local kept = {}
for i = 3, #ARGV do
  local ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or 0)
  kept[i - 2] = ends > now and 1 or 0
  if ends > now then
    redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[i])
  end
end
return table.concat(kept)
