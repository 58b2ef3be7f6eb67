-- adder_open.lua: begin a round of an adder: ask all who count to answer.
--
-- KEYS[1]  semaphore  string; how many have answered
-- KEYS[2]  round      string; `-` until the first of ours answers
-- KEYS[3]  counter    string; what was answered so far
-- ARGV[1]  lifetime   of these keys, in milliseconds
-- ARGV[2]  publish, [3] channel, [4] message
-- Returns  how many hear it
--
-- Work: O(listeners). Sent twice, all answer twice: it is sent once.
for _, key in ipairs(KEYS) do
  redis.call('SET', key, key == KEYS[2] and '-' or '0', 'PX', ARGV[1])
end
return redis.call(ARGV[2], ARGV[3], ARGV[4])
