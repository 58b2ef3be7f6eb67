-- adder_open.lua: begin a round of an adder: ask all who count to answer.
--
-- KEYS[1]  semaphore  string; how many have answered
-- KEYS[2]  round      string; `-` until the first of ours answers
-- KEYS[3]  counter    string; what was answered so far
-- ARGV[1]  lifetime   of these keys, in milliseconds
-- ARGV[2]  publish, [3] channel, [4] message
-- ARGV[5]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- Returns  how many hear it; -1 when it is too late
--
-- Work: O(listeners). Sent twice, all answer twice: it is sent once.
local clock = redis.call('TIME')
if clock[1] * 1000000 + clock[2] > tonumber(ARGV[5]) then
  return -1
end
for _, key in ipairs(KEYS) do
  redis.call('SET', key, key == KEYS[2] and '-' or '0', 'PX', ARGV[1])
end
return redis.call(ARGV[2], ARGV[3], ARGV[4])
