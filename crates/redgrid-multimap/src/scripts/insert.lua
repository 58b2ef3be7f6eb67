-- insert.lua: values for a key of a multimap.
--
-- KEYS[1]  map, a hash
-- KEYS[2]  values of the key, a set or a list
-- ARGV[1]  key
-- ARGV[2]  its hash
-- ARGV[3]  SCARD or LLEN
-- ARGV[4]  SADD or RPUSH
-- ARGV[5…] the values, some thousands at most
-- Returns  how many are new
--
-- Work: O(ARGV). Not to be sent twice: a list would have them twice, and others may have removed some in between. Where the values can not be
-- written the key is not in the map for it.
local had = redis.call(ARGV[3], KEYS[2])
local new = redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local done = redis.pcall(ARGV[4], KEYS[2], unpack(ARGV, 5))
if type(done) == 'table' then
  if new == 1 and had == 0 then
    redis.pcall('HDEL', KEYS[1], ARGV[1])
  end
  return done
end
return redis.call(ARGV[3], KEYS[2]) - had
