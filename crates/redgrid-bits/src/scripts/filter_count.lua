-- filter_count.lua: reads the shape of a Bloom filter and the number of its set bits, in one step.
--
-- KEYS[1]  the configuration   hash
-- KEYS[2]  the bits            string
-- Returns  {size, hashIterations, number of set bits}; nothing for values that do not exist
--
-- Work: that of BITCOUNT. Read-only.
local shape = redis.call('HMGET', KEYS[1], 'size', 'hashIterations')
return {shape[1], shape[2], redis.call('BITCOUNT', KEYS[2])}
