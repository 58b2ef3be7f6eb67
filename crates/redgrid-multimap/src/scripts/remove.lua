-- remove.lua: a value less for a key of a multimap, and the key with the last. Behind head.lua.
--
-- KEYS[2]  values of the key, a set or a list
-- ARGV[2]  key
-- ARGV[3]  its hash
-- ARGV[4]  SCARD or LLEN
-- ARGV[5]  SREM or LREM
-- ARGV[6]  the value
-- Returns  {1 it was in, 0 not; keys that are over}
--
-- Work: O(1), of a list O(n). Not to be sent twice: a list may have it twice, and others may have inserted it anew in between. The map is known to be
-- one before a value goes. The key goes before its last value, and stays where that may not be removed.
local key = ARGV[2]
local is_list = ARGV[5] == 'LREM'
local function remove()
  if is_list then
    return redis.pcall('LREM', KEYS[2], 1, ARGV[6])
  end
  return redis.pcall(ARGV[5], KEYS[2], ARGV[6])
end
local len = redis.call(ARGV[4], KEYS[2])
local wrong = refused(nil, ARGV[5])
if wrong then
  return wrong
end
if over(key) then
  drop(key, KEYS[2])
  forget()
  return {0, waste()}
end
local done
if len ~= 1 then
  done = remove()
else
  local last = is_list and redis.call('LRANGE', KEYS[2], 0, 0) or redis.call('SMEMBERS', KEYS[2])
  if last[1] ~= ARGV[6] then
    return {0, waste()}
  end
  local was = redis.call('HDEL', KEYS[1], key)
  done = remove()
  if type(done) == 'table' then
    if was == 1 then
      redis.call('HSET', KEYS[1], key, ARGV[3])
    end
  else
    forget(key)
  end
end
if type(done) == 'table' then
  return done
end
return {done, waste()}
