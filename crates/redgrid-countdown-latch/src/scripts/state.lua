-- state.lua: the state of a latch.
--
-- KEYS[1]  count  string; the remaining count
-- KEYS[2]  round  string; its number, with `-` in front once the round is over.
--                 Redisson writes none.
-- ARGV[1]  kept   lifetime of the round's number in milliseconds; renewed when less than half
--                 is left
-- ARGV[2]  over   lifetime of the number after the end of the round, in milliseconds
-- Returns  {count, round, left}  as text. count: 0 or less if the latch is open. round: its number;
--                                0 if it has none; if negative, the number of the last round that
--                                is known to be over. left: PTTL of the count.
--
-- Work: O(1), writes at most one key; replies also if it may not write. Sent twice, it reads twice.
local count = redis.call('GET', KEYS[1])
if not count then
  -- A client that does not write the number, such as Redisson, has ended the round: mark the
  -- number. A key of another type is not changed.
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
