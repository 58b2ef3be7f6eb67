-- remove.lua: removes a value of a key of a multimap, and the key with its last value. After
-- key_prelude.lua.
--
-- KEYS[2]  values of the key: a set or a list
-- ARGV[2]  key
-- ARGV[3]  its hash
-- ARGV[4]  SCARD or LLEN
-- ARGV[5]  SREM or LREM
-- ARGV[6]  the value
-- Returns  {1 removed, 0 not found; expired keys}
--
-- Work: O(1), for a list O(n). Not to be sent twice: a list may contain the value twice, and
-- another client may have inserted it again in between. The type of the map is checked before a
-- value is removed. The key is removed before its last value, and restored if that may not be
-- removed.
local key = ARGV[2]
local is_list = ARGV[5] == 'LREM'
local function remove()
  if is_list then
    return redis.pcall('LREM', KEYS[2], 1, ARGV[6])
  end
  return redis.pcall(ARGV[5], KEYS[2], ARGV[6])
end
local len = redis.call(ARGV[4], KEYS[2])
local refusal = check_permitted(nil, ARGV[5])
if refusal then
  return refusal
end
if is_expired(key) then
  remove_expired(key, KEYS[2])
  forget_expiry()
  return {0, expired_keys()}
end
local result
if len ~= 1 then
  result = remove()
else
  local last = is_list and redis.call('LRANGE', KEYS[2], 0, 0) or redis.call('SMEMBERS', KEYS[2])
  if last[1] ~= ARGV[6] then
    return {0, expired_keys()}
  end
  local removed_fields = redis.call('HDEL', KEYS[1], key)
  result = remove()
  if type(result) == 'table' then
    if removed_fields == 1 then
      redis.call('HSET', KEYS[1], key, ARGV[3])
    end
  else
    forget_expiry(key)
  end
end
if type(result) == 'table' then
  return result
end
return {result, expired_keys()}
