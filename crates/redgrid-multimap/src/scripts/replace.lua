-- replace.lua: other values for a key of a multimap, or none.
--
-- KEYS[1]  map, a hash
-- KEYS[2]  values of the key, a set or a list
-- ARGV[1]  key
-- ARGV[2]  its hash
-- ARGV[3]  SMEMBERS or LRANGE where it is to be told what they were; else nothing
-- ARGV[4]  SCARD or LLEN
-- ARGV[5]  SADD or RPUSH
-- ARGV[6…] the values
-- Returns  what the values were, where that is to be told; else an empty list
--
-- Work: O(ARGV), and of what is told. Not to be sent twice: the second would tell the first's. What is not allowed stops it before the values are
-- gone: the first of the others is tried beside them, and taken back.
local was = {}
if ARGV[3] == 'LRANGE' then
  was = redis.call('LRANGE', KEYS[2], 0, -1)
elseif ARGV[3] ~= '' then
  was = redis.call(ARGV[3], KEYS[2])
end
local had = redis.call(ARGV[4], KEYS[2])
if #ARGV == 5 then
  local removed = redis.call('HDEL', KEYS[1], ARGV[1])
  local done = redis.pcall('UNLINK', KEYS[2])
  if type(done) == 'table' then
    if removed == 1 then
      redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
    end
    return done
  end
  return was
end
local new = redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local done = redis.pcall(ARGV[5], KEYS[2], ARGV[6])
if type(done) == 'table' then
  if new == 1 and had == 0 then
    redis.pcall('HDEL', KEYS[1], ARGV[1])
  end
  return done
end
local first = 7
if had > 0 then
  local gone = redis.pcall('UNLINK', KEYS[2])
  if type(gone) == 'table' then
    if ARGV[5] == 'RPUSH' then
      -- From the end on: the one that was tried.
      redis.pcall('LREM', KEYS[2], -1, ARGV[6])
    elseif done == 1 then
      redis.pcall('SREM', KEYS[2], ARGV[6])
    end
    return gone
  end
  first = 6
end
for i = first, #ARGV, 5000 do
  redis.call(ARGV[5], KEYS[2], unpack(ARGV, i, math.min(i + 4999, #ARGV)))
end
return was
