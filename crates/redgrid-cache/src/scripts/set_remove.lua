-- set_remove.lua: removes values of a set cache.
--
-- KEYS[1]  set, see set_insert.lua
-- ARGV     values, 500 at most
-- Returns  the number of values that were in the set and not expired
--
-- Work: O(values * log n); removes up to 100 expired values. Not to be sent twice: the second
-- transmission would find nothing.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)
if #expired > 0 then
  redis.call('ZREM', KEYS[1], unpack(expired))
end
local removed = 0
for i = 1, #ARGV do
  local expiry = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or '')
  redis.call('ZREM', KEYS[1], ARGV[i])
  removed = removed + (expiry and expiry > now and 1 or 0)
end
return removed
