-- filter_count.lua: what a Bloom filter is, and how many of its bits are set, at one moment.
--
-- KEYS[1]  what it is   hash
-- KEYS[2]  its bits     string
-- Returns  {size, hashIterations, how many bits are set}; nothing for what is not there
--
-- Work: as BITCOUNT. Only reads.
local shape = redis.call('HMGET', KEYS[1], 'size', 'hashIterations')
return {shape[1], shape[2], redis.call('BITCOUNT', KEYS[2])}
