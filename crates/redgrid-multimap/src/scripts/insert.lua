-- insert.lua: adds values to a key of a multimap. After key_prelude.lua.
--
-- KEYS[2]  values of the key: a set or a list
-- ARGV[2]  key
-- ARGV[3]  its hash
-- ARGV[4]  SCARD or LLEN
-- ARGV[5]  SADD or RPUSH
-- ARGV[6…] the values, some thousands at most
-- Returns  {number of new values; expired keys}
--
-- Work: O(ARGV). Not to be sent twice: a list would contain the values twice, and another client
-- may have removed some in between. If the values cannot be written, the key is not added to the
-- map. A key keeps its lifetime; an expired key is replaced by a new one without a lifetime.
local key, len = ARGV[2], ARGV[4]
local previous_len = redis.call(len, KEYS[2])
local refusal = check_permitted(ARGV[5])
if refusal then
  return refusal
end
if is_expired(key) then
  remove_expired(key, KEYS[2])
  previous_len = 0
end
-- An existing field is not set again: HSET would remove its lifetime.
local new = redis.call('HEXISTS', KEYS[1], key) == 0
if new then
  redis.call('HSET', KEYS[1], key, ARGV[3])
end
local result = redis.pcall(ARGV[5], KEYS[2], unpack(ARGV, 6))
if type(result) == 'table' then
  if new and previous_len == 0 then
    redis.pcall('HDEL', KEYS[1], key)
  end
  return result
end
if new then
  -- If there is an expiry of this key, it is that of an earlier one: remove it.
  forget_expiry(key)
end
sync_ttl(key, KEYS[2])
return {redis.call(len, KEYS[2]) - previous_len, expired_keys()}
