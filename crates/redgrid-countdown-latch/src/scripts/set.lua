-- set.lua: begins a round, unless there is one.
--
-- KEYS[2]  count     string; the remaining count
-- KEYS[3]  round     string; its number, with `-` in front once the round is over
-- ARGV[4]  count     whole number, 1 or more
-- ARGV[5]  lifetime  of the round in milliseconds; 0 for none
-- ARGV[6]  kept      lifetime of the round's number in milliseconds, at most the round's
-- ARGV[7]  publish   PUBLISH or SPUBLISH
-- ARGV[8]  channel   Redisson's, if it can use the name; the message is `1`, after which its
--                    waiters keep waiting
-- Returns  {1}  begun
--          {0}  a round is in progress; nothing is changed
--
-- Work: O(1), writes two keys. Sent twice, it acts once.
if redis.call('EXISTS', KEYS[2]) == 1 then
  return answer({0})
end
-- The number must be higher than those of all earlier rounds. It is the time, and at least the last
-- number plus one: the clock may have been set back since, or be another server's. Without a stored
-- number it is the time alone. The number is too low only if the clock was set back, or another
-- server's clock lags, by more than the lifetime of the number.
local now = redis.call('TIME')
local former = math.abs(tonumber(redis.call('GET', KEYS[3]) or '0') or 0)
local round = math.max(now[1] * 1000000 + now[2], former + 1)
if tonumber(ARGV[5]) > 0 then
  redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
else
  redis.call('SET', KEYS[2], ARGV[4])
end
redis.call('SET', KEYS[3], string.format('%.0f', round), 'PX', ARGV[6])
if ARGV[8] then
  redis.pcall(ARGV[7], ARGV[8], '1')
end
return answer({1})
