-- insert.lua: values for a key of a multimap. Behind head.lua.
--
-- KEYS[2]  values of the key, a set or a list
-- ARGV[2]  key
-- ARGV[3]  its hash
-- ARGV[4]  SCARD or LLEN
-- ARGV[5]  SADD or RPUSH
-- ARGV[6…] the values, some thousands at most
-- Returns  {how many are new, keys that are over}
--
-- Work: O(ARGV). Not to be sent twice: a list would have them twice, and others may have removed some in between. Where the values can not be
-- written the key is not in the map for it. A key keeps its lifetime; one that is over is a new one, without.
local key, len = ARGV[2], ARGV[4]
local had = redis.call(len, KEYS[2])
local wrong = refused(ARGV[5])
if wrong then
  return wrong
end
if over(key) then
  drop(key, KEYS[2])
  had = 0
end
-- HSET would end the lifetime of a field.
local new = redis.call('HEXISTS', KEYS[1], key) == 0
if new then
  redis.call('HSET', KEYS[1], key, ARGV[3])
end
local done = redis.pcall(ARGV[5], KEYS[2], unpack(ARGV, 6))
if type(done) == 'table' then
  if new and had == 0 then
    redis.pcall('HDEL', KEYS[1], key)
  end
  return done
end
if new then
  -- An end that is left is that of a key before it.
  forget(key)
end
live(key, KEYS[2])
return {redis.call(len, KEYS[2]) - had, waste()}
