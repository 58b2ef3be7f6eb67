-- remove.lua: a value less for a key of a multimap, and the key with the last.
--
-- KEYS[1]  map, a hash
-- KEYS[2]  values of the key, a set or a list
-- ARGV[1]  key
-- ARGV[2]  its hash
-- ARGV[3]  SCARD or LLEN
-- ARGV[4]  SREM or LREM
-- ARGV[5]  the value
-- Returns  1 it was in, 0 not
--
-- Work: O(1), of a list O(n). Not to be sent twice: a list may have it twice, and others may have inserted it anew in between. The map is known to be
-- one before a value goes. The key goes before its last value, and stays where that may not be removed.
local is_list = ARGV[4] == 'LREM'
local function remove()
  if is_list then
    return redis.pcall('LREM', KEYS[2], 1, ARGV[5])
  end
  return redis.pcall(ARGV[4], KEYS[2], ARGV[5])
end
redis.call('HEXISTS', KEYS[1], ARGV[1])
if redis.call(ARGV[3], KEYS[2]) ~= 1 then
  return remove()
end
local last = is_list and redis.call('LRANGE', KEYS[2], 0, 0) or redis.call('SMEMBERS', KEYS[2])
if last[1] ~= ARGV[5] then
  return 0
end
local was = redis.call('HDEL', KEYS[1], ARGV[1])
local done = remove()
if type(done) == 'table' and was == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return done
