-- count.lua: how many keys a multimap has. Behind head.lua.
--
-- ARGV[2]  how many that are over are told, at most
-- Returns  {how many there are with those, keys that are over}
--
-- Work: O(ARGV[2] + log keys); only reads.
return {redis.call('HLEN', KEYS[1]), redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, ARGV[2])}
