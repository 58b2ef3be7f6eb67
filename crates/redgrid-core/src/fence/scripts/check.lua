-- check.lua: lets a token pass if it is not stale, and then remembers it.
--
-- KEYS[1]  fence     string; the highest token that has passed, in decimal
-- ARGV[1]  token     decimal, without leading zeros: a time in microseconds since 1970
-- ARGV[2]  lifetime  how long the highest token is remembered after a token has passed, in
--                    milliseconds; 0: forever. If the token is later than this server's time, the
--                    difference is added to the lifetime
-- Returns  {1, token}    passed: it is now the highest token
--          {0, highest}  stale: `highest` has passed before
--          {3, ''}       no token is remembered, and the given token is older than the lifetime
--
-- Work: O(1), writes one key. Sent twice, the script has the same effect as sent once, because it
-- only sets the token.
local token, lifetime = ARGV[1], tonumber(ARGV[2])
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local highest = redis.call('GET', KEYS[1])
if highest then
  -- Tokens are compared as text, because numbers above 2^53 are not exact in Lua.
  if #token < #highest or (#token == #highest and token < highest) then
    return {0, highest}
  end
elseif lifetime > 0 then
  if tonumber(token) < now - lifetime * 1000 then
    return {3, ''}
  end
end
if lifetime > 0 then
  -- A token that is later than this server's time is remembered until its age reaches the lifetime.
  -- The lifetime of the key is never shortened. If the key has no lifetime, it gets none: it may
  -- come from a client whose fence has no lifetime.
  local lead = math.max(0, math.ceil((tonumber(token) - now) / 1000))
  local left = redis.call('PTTL', KEYS[1])
  if left == -1 then
    redis.call('SET', KEYS[1], token)
  else
    redis.call('SET', KEYS[1], token, 'PX', string.format('%.0f', math.max(left, lifetime + lead)))
  end
else
  redis.call('SET', KEYS[1], token)
end
return {1, token}
