-- key_ttl.lua: remaining lifetime of a key of a multimap. After key_prelude.lua.
--
-- KEYS[2]  values of the key: a set or a list
-- ARGV[2]  key
-- Returns  milliseconds, -1 without a lifetime, -2 if the key does not exist
--
-- Work: O(1); only reads.
local key = ARGV[2]
if is_expired(key) or redis.call('HEXISTS', KEYS[1], key) == 0 or redis.call('EXISTS', KEYS[2]) == 0 then
  return -2
end
local expiry = expiries and redis.call('ZSCORE', expiries, key)
local shortest = key_ttl(key)
for _, ttl in ipairs({redis.call('PTTL', KEYS[2]), expiry and tonumber(expiry) - now or -1}) do
  if ttl >= 0 and (shortest < 0 or ttl < shortest) then
    shortest = ttl
  end
end
return shortest
