-- adder_open.lua: open a round of an adder, and request the answers of all members.
--
-- KEYS[1]  semaphore  string; the number of answers
-- KEYS[2]  round      string; `-` until the first member of redgrid answers
-- KEYS[3]  counter    string; the sum of the answers
-- ARGV[1]  lifetime   of these keys, in milliseconds
-- ARGV[2]  publish, [3] channel, [4] message
-- ARGV[5]  not after  microseconds since 1970 by this server's clock; later than that, nothing is
--                     done
-- Returns  the number of members that receive the message
--          {-1, time}  too late: nothing was done; and the server's time, in microseconds
--
-- Work: O(subscribers). Sent twice, all answer twice: it is sent once.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
if tonumber(now) > tonumber(ARGV[5]) then
  return {-1, now}
end
for _, key in ipairs(KEYS) do
  redis.call('SET', key, key == KEYS[2] and '-' or '0', 'PX', ARGV[1])
end
-- The reply to a publication also counts subscribers by pattern, which are not members.
local subscribers = redis.pcall('PUBSUB', ARGV[2] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[3])
local receivers = redis.call(ARGV[2], ARGV[3], ARGV[4])
return math.min(receivers, tonumber(subscribers[2]) or receivers)
