-- fence_check.lua: let a token pass that is not stale, and remember it.
--
-- KEYS[1]  fence     string; the highest token that has passed, in decimal
-- ARGV[1]  token     decimal, without leading zeros
-- ARGV[2]  lifetime  milliseconds that a fence is remembered after the last token, by the later of the two: the time that it
--                    says, and that at which it passed; 0 for ever
-- Returns  {1, token}    passed; it is the highest now
--          {0, highest}  stale: `highest` has passed before
--          {3, ''}       nothing is remembered, and the token is older than the lifetime of a fence
--
-- Work: O(1), writes one key. Sent twice, it is the same as once: the highest is set, never counted.
local token, lifetime = ARGV[1], tonumber(ARGV[2])
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local highest = redis.call('GET', KEYS[1])
if highest then
  -- As text, since numbers above 2^53 are not exact here.
  if #token < #highest or (#token == #highest and token < highest) then
    return {0, highest}
  end
elseif lifetime > 0 then
  if tonumber(token) < now - lifetime * 1000 then
    return {3, ''}
  end
end
if lifetime > 0 then
  -- A token that is ahead of this server's clock is remembered until it is as old as the lifetime. What another keeps for
  -- longer is not cut short; what has no end gets none.
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
