-- replace.lua: other values for a key of a multimap, or none. Behind head.lua.
--
-- KEYS[2]  values of the key, a set or a list
-- ARGV[2]  key
-- ARGV[3]  its hash
-- ARGV[4]  SMEMBERS or LRANGE where it is to be told what they were; else nothing
-- ARGV[5]  SCARD or LLEN
-- ARGV[6]  SADD or RPUSH
-- ARGV[7…] the values
-- Returns  {what the values were, where that is to be told, else an empty list; keys that are over}
--
-- Work: O(ARGV), and of what is told. Not to be sent twice: the second would tell the first's. What is not allowed stops it before the values are
-- gone: the first of the others is tried beside them, and taken back. A key that gets other values keeps its lifetime.
local key = ARGV[2]
local had = redis.call(ARGV[5], KEYS[2])
local wrong = refused(#ARGV > 6 and ARGV[6])
if wrong then
  return wrong
end
if over(key) then
  drop(key, KEYS[2])
  had = 0
end
local was = {}
if ARGV[4] == 'LRANGE' then
  was = redis.call('LRANGE', KEYS[2], 0, -1)
elseif ARGV[4] ~= '' then
  was = redis.call(ARGV[4], KEYS[2])
end
if #ARGV == 6 then
  local removed = redis.call('HDEL', KEYS[1], key)
  local done = redis.pcall('UNLINK', KEYS[2])
  if type(done) == 'table' then
    if removed == 1 then
      redis.call('HSET', KEYS[1], key, ARGV[3])
    end
    return done
  end
  forget(key)
  return {was, waste()}
end
-- HSET would end the lifetime of a field.
local new = redis.call('HEXISTS', KEYS[1], key) == 0
if new then
  redis.call('HSET', KEYS[1], key, ARGV[3])
end
local done = redis.pcall(ARGV[6], KEYS[2], ARGV[7])
if type(done) == 'table' then
  if new and had == 0 then
    redis.pcall('HDEL', KEYS[1], key)
  end
  return done
end
local first = 8
if had > 0 then
  local gone = redis.pcall('UNLINK', KEYS[2])
  if type(gone) == 'table' then
    if ARGV[6] == 'RPUSH' then
      -- From the end on: the one that was tried.
      redis.pcall('LREM', KEYS[2], -1, ARGV[7])
    elseif done == 1 then
      redis.pcall('SREM', KEYS[2], ARGV[7])
    end
    return gone
  end
  first = 7
end
for i = first, #ARGV, 5000 do
  redis.call(ARGV[6], KEYS[2], unpack(ARGV, i, math.min(i + 4999, #ARGV)))
end
if new then
  -- An end that is left is that of a key before it.
  forget(key)
end
live(key, KEYS[2])
return {was, waste()}
