-- set_find.lua: reads the remaining lifetimes of values of a set cache.
--
-- KEYS[1]  set, see set_insert.lua
-- ARGV     values, 500 at most
-- Returns  for each value the milliseconds; -2 if the set does not contain it
--
-- Work: O(values); read-only.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local remaining = {}
for i = 1, #ARGV do
  local expiry = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or '')
  remaining[i] = expiry and expiry > now and expiry - now or -2
end
return remaining
