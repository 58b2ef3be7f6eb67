-- set_len.lua: counts the values of a set cache that are not expired.
--
-- KEYS[1]  set, see set_insert.lua
-- Returns  the number of values
--
-- Work: O(log n); read-only.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf')
