-- set_find.lua: how long values of a set cache are in it.
--
-- KEYS[1]  set, as set_insert.lua has it
-- ARGV     values, 500 at most
-- Returns  of each the milliseconds; -2 where it is not in
--
-- Work: O(values); only reads.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left = {}
for i = 1, #ARGV do
  local ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or '')
  left[i] = ends and ends > now and ends - now or -2
end
return left
