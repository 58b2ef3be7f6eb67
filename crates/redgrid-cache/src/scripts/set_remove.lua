-- set_remove.lua: values less in a set cache.
--
-- KEYS[1]  set, as set_insert.lua has it
-- ARGV     values, 500 at most
-- Returns  how many were in, and not over
--
-- Work: O(values * log n); takes out 100 that are over. Not to be sent twice: the second would find nothing.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)
if #over > 0 then
  redis.call('ZREM', KEYS[1], unpack(over))
end
local removed = 0
for i = 1, #ARGV do
  local ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or '')
  redis.call('ZREM', KEYS[1], ARGV[i])
  removed = removed + (ends and ends > now and 1 or 0)
end
return removed
