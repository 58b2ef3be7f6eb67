-- remove_keys.lua: removes keys of a multimap with all their values. After key_prelude.lua.
--
-- KEYS[2…] the values of each key, sets or lists
-- ARGV[2]  any, or over: only expired keys
-- ARGV[3…] each key, and its hash
-- Returns  {number of removed keys that had not expired; expired keys}
--
-- Work: O(ARGV), some hundreds; the memory is freed in the background. Sent twice, it removes
-- values that other clients have inserted meanwhile; an expired key stays expired. If the values
-- may not be removed, the key remains.
local refusal = check_permitted()
if refusal then
  return refusal
end
local removed = 0
for i = 2, #KEYS - (expiries and 1 or 0) do
  local key, hash = ARGV[2 * i - 1], ARGV[2 * i]
  if is_expired(key) then
    remove_expired(key, KEYS[i])
  elseif ARGV[2] == 'any' then
    local removed_fields = redis.call('HDEL', KEYS[1], key)
    local result = redis.pcall('UNLINK', KEYS[i])
    if type(result) == 'table' then
      if removed_fields == 1 then
        redis.call('HSET', KEYS[1], key, hash)
      end
      return result
    end
    forget_expiry(key)
    removed = removed + removed_fields
  end
end
forget_expiry()
return {removed, expired_keys()}
