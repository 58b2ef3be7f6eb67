-- adder_open.lua: begin a round of an adder: ask all who count to answer.
--
-- KEYS[1]  semaphore  string; how many have answered
-- KEYS[2]  round      string; `-` until the first of ours answers
-- KEYS[3]  counter    string; what was answered so far
-- ARGV[1]  lifetime   of these keys, in milliseconds
-- ARGV[2]  publish, [3] channel, [4] message
-- ARGV[5]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- Returns  how many of those who count hear it
--          {-1, time}  it is too late, and nothing was done; and the server's time, in microseconds
--
-- Work: O(listeners). Sent twice, all answer twice: it is sent once.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
if tonumber(now) > tonumber(ARGV[5]) then
  return {-1, now}
end
for _, key in ipairs(KEYS) do
  redis.call('SET', key, key == KEYS[2] and '-' or '0', 'PX', ARGV[1])
end
-- The answer to a publication counts those who listen by a pattern, who do not count.
local counted = redis.pcall('PUBSUB', ARGV[2] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[3])
local heard = redis.call(ARGV[2], ARGV[3], ARGV[4])
return math.min(heard, tonumber(counted[2]) or heard)
