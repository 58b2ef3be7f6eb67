-- count.lua: number of keys of a multimap. After key_prelude.lua.
--
-- ARGV[2]  maximum number of expired keys to return
-- Returns  {number of keys, including the expired ones; expired keys}
--
-- Work: O(ARGV[2] + log keys); only reads.
return {redis.call('HLEN', KEYS[1]), redis.call('ZRANGEBYSCORE', expiries, '-inf', now, 'LIMIT', 0, ARGV[2])}
