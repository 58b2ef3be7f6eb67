-- remove.lua: a value less for a key of a multimap, and the key with the last.
--
-- KEYS[1]  map, a hash
-- KEYS[2]  values of the key, a set or a list
-- ARGV[1]  key
-- ARGV[2]  SCARD or LLEN
-- ARGV[3]  SREM or LREM
-- ARGV[4]  the value
-- Returns  1 it was in, 0 not
--
-- Work: O(1), of a list O(n). Not to be sent twice: a list may have it twice, and others may have inserted it anew in between. The map is known to be
-- one before a value goes.
redis.call('HEXISTS', KEYS[1], ARGV[1])
local removed
if ARGV[3] == 'LREM' then
  removed = redis.call('LREM', KEYS[2], 1, ARGV[4])
else
  removed = redis.call(ARGV[3], KEYS[2], ARGV[4])
end
if removed == 1 and redis.call(ARGV[2], KEYS[2]) == 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return removed
