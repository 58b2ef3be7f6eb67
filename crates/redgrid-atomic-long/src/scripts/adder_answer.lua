-- adder_answer.lua: answer a round of an adder, as Redisson does. Behind dedup.lua.
--
-- KEYS[2]  counter    string; the sum of the answers
-- KEYS[3]  semaphore  string; the number of answers
-- KEYS[4]  round      string; see adder_enter.lua
-- ARGV[4]  command    that adds; empty for a reset
-- ARGV[5]  amount     to add, in decimal; empty if it is out of range
-- ARGV[6]  redgrid    `1`: a round of redgrid, which is over once `round` is gone
-- ARGV[7]  lifetime   of the written keys, in milliseconds
-- ARGV[8]  publish, [9] channel   for the notification of the caller: the number of answers
-- Returns  {1}  answered
--          {0}  the round is over, or it is a round of Redisson and the sum is out of range:
--               nothing was done
--
-- Work: O(1). In a round of redgrid, an answer that is out of range counts: the round ends in an
-- overflow.
local round = redis.call('GET', KEYS[4])
if not round and ARGV[6] == '1' then
  return answer({0})
end
if ARGV[4] ~= '' then
  local added = ARGV[5] == '' and {err = 'would overflow'} or redis.pcall(ARGV[4], KEYS[2], ARGV[5])
  if type(added) == 'table' and added.err then
    if not string.find(added.err, 'would', 1, true) then
      return added
    end
    if ARGV[6] ~= '1' then
      return answer({0})
    end
    redis.call('SET', KEYS[4], string.match(round, '^[%d-]+') .. '!', 'PX', ARGV[7])
  elseif redis.call('PTTL', KEYS[2]) < 0 then
    redis.call('PEXPIRE', KEYS[2], ARGV[7])
  end
end
local answered = redis.call('INCRBY', KEYS[3], 1)
if redis.call('PTTL', KEYS[3]) < 0 then
  redis.call('PEXPIRE', KEYS[3], ARGV[7])
end
redis.pcall(ARGV[8], ARGV[9], tostring(answered))
return answer({1})
