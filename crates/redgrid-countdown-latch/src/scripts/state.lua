-- state.lua: the state of a latch.
--
-- KEYS[1]  count    string; how many are left
-- KEYS[2]  round    string; the number of the round, `-` before that of one that is over. Redisson writes none.
-- ARGV[1]  kept     lifetime of the round's number in milliseconds, renewed here at its half
-- ARGV[2]  over     how long the number is kept when the round is over, in milliseconds
-- Returns  {count, round, left}  in text: what is left, 0 and below where the latch is open; the round's number, 0 where it
--                                has none, below 0 that of the last one of which it is known that it is over; the lifetime of
--                                the count as of PTTL
--
-- Work: O(1), writes at most one key, and tells where it may not write, too. Sent twice, it looks twice.
local count = redis.call('GET', KEYS[1])
if not count then
  -- Ended by who knows nothing of its number. A number of another type is nobody's.
  local round = redis.pcall('GET', KEYS[2])
  if type(round) == 'string' and string.sub(round, 1, 1) ~= '-' then
    redis.pcall('SET', KEYS[2], '-' .. round, 'PX', ARGV[2])
  end
  return {'0', '0', '-2'}
end
if not tonumber(count) then
  return redis.error_reply('WRONGTYPE the key of the latch holds no number')
end
local left = redis.call('PTTL', KEYS[1])
local round = redis.call('GET', KEYS[2]) or '0'
local kept = redis.call('PTTL', KEYS[2])
if string.sub(round, 1, 1) ~= '-' and kept >= 0 and kept < ARGV[1] / 2 and (left < 0 or left > kept) then
  local longest = tonumber(ARGV[1])
  redis.pcall('PEXPIRE', KEYS[2], left < 0 and longest or math.min(longest, left))
end
return {count, round, tostring(left)}
