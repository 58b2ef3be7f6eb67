-- set_len.lua: how many values of a set cache are not over.
--
-- KEYS[1]  set, as set_insert.lua has it
-- Returns  how many
--
-- Work: O(log n); only reads.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf')
