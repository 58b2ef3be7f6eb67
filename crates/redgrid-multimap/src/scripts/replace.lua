-- replace.lua: replaces or removes the values of a key of a multimap. After key_prelude.lua.
--
-- KEYS[2]  values of the key: a set or a list
-- ARGV[2]  key
-- ARGV[3]  its hash
-- ARGV[4]  SMEMBERS or LRANGE to return the previous values; otherwise an empty string
-- ARGV[5]  SCARD or LLEN
-- ARGV[6]  SADD or RPUSH
-- ARGV[7…] the values
-- Returns  {the previous values, or an empty list without ARGV[4]; expired keys}
--
-- Work: O(ARGV) plus the returned values. Not to be sent twice: the second transmission would
-- return the values of the first. A forbidden command is detected before the previous values are
-- removed: the first new value is added to them as a test, and removed again on failure. A key with
-- new values keeps its lifetime.
local key = ARGV[2]
local previous_len = redis.call(ARGV[5], KEYS[2])
local refusal = check_permitted(#ARGV > 6 and ARGV[6])
if refusal then
  return refusal
end
if is_expired(key) then
  remove_expired(key, KEYS[2])
  previous_len = 0
end
local previous = {}
if ARGV[4] == 'LRANGE' then
  previous = redis.call('LRANGE', KEYS[2], 0, -1)
elseif ARGV[4] ~= '' then
  previous = redis.call(ARGV[4], KEYS[2])
end
if #ARGV == 6 then
  local removed = redis.call('HDEL', KEYS[1], key)
  local result = redis.pcall('UNLINK', KEYS[2])
  if type(result) == 'table' then
    if removed == 1 then
      redis.call('HSET', KEYS[1], key, ARGV[3])
    end
    return result
  end
  forget_expiry(key)
  return {previous, expired_keys()}
end
-- An existing field is not set again: HSET would remove its lifetime.
local new = redis.call('HEXISTS', KEYS[1], key) == 0
if new then
  redis.call('HSET', KEYS[1], key, ARGV[3])
end
local result = redis.pcall(ARGV[6], KEYS[2], ARGV[7])
if type(result) == 'table' then
  if new and previous_len == 0 then
    redis.pcall('HDEL', KEYS[1], key)
  end
  return result
end
local first = 8
if previous_len > 0 then
  local unlinked = redis.pcall('UNLINK', KEYS[2])
  if type(unlinked) == 'table' then
    if ARGV[6] == 'RPUSH' then
      -- Removes the test value, which is the last one.
      redis.pcall('LREM', KEYS[2], -1, ARGV[7])
    elseif result == 1 then
      redis.pcall('SREM', KEYS[2], ARGV[7])
    end
    return unlinked
  end
  first = 7
end
for i = first, #ARGV, 5000 do
  redis.call(ARGV[6], KEYS[2], unpack(ARGV, i, math.min(i + 4999, #ARGV)))
end
if new then
  -- If there is an expiry of this key, it is that of an earlier one: remove it.
  forget_expiry(key)
end
sync_ttl(key, KEYS[2])
return {previous, expired_keys()}
