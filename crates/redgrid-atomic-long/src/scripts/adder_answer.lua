-- adder_answer.lua: answer a round of an adder, as Redisson does. Behind once.lua.
--
-- KEYS[2]  counter    string; what was answered so far
-- KEYS[3]  semaphore  string; how many have answered
-- KEYS[4]  round      string; see adder_enter.lua
-- ARGV[4]  command    that adds; empty for a reset
-- ARGV[5]  amount     what is added, in decimal; empty where that is beyond what a number can be
-- ARGV[6]  ours       `1`: the round is over once `round` has gone
-- ARGV[7]  lifetime   of what is written, in milliseconds
-- ARGV[8]  publish, [9] channel   how who asked is told; the message is how many have answered
-- Returns  {1}  answered
--          {0}  the round is over, or the sum is beyond what a number can be and is not one of ours: nothing was done
--
-- Work: O(1). One whose sum is too much is counted where the round is ours, which then ends in an overflow.
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
