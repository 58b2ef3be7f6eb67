-- look.lua: how a latch is.
--
-- KEYS[1]  count    string; how many are left
-- KEYS[2]  round    string; the number of the round. Redisson writes none.
-- ARGV[1]  kept     lifetime of the round's number in milliseconds, renewed here at its half
-- Returns  {count, round, left}  in text: what is left, 0 and below where the latch is open; the round's number, 0 where it
--                                has none; the lifetime of the count as of PTTL
--
-- Work: O(1), writes at most one key. Sent twice, it looks twice.
local count = redis.call('GET', KEYS[1])
if not count then
  -- Ended by who knows nothing of its number.
  redis.call('DEL', KEYS[2])
  return {'0', '0', '-2'}
end
if not tonumber(count) then
  return redis.error_reply('WRONGTYPE the key of the latch holds no number')
end
local left = redis.call('PTTL', KEYS[1])
local kept = redis.call('PTTL', KEYS[2])
if kept >= 0 and kept < ARGV[1] / 2 and (left < 0 or left > kept) then
  local longest = tonumber(ARGV[1])
  redis.call('PEXPIRE', KEYS[2], left < 0 and longest or math.min(longest, left))
end
return {count, redis.call('GET', KEYS[2]) or '0', tostring(left)}
