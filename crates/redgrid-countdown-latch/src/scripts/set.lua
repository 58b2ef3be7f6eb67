-- set.lua: begin a round, where none is.
--
-- KEYS[2]  count     string; how many are left
-- KEYS[3]  round     string; the number of the round, `-` before that of one that is over
-- ARGV[4]  count     whole number, 1 or more
-- ARGV[5]  lifetime  of the round in milliseconds; 0 for none
-- ARGV[6]  kept      lifetime of the round's number in milliseconds, not above the round's
-- ARGV[7]  publish   PUBLISH or SPUBLISH
-- ARGV[8]  channel   Redisson's, where it can use one; the message is `1`, by which its waiters sleep again
-- Returns  {1}  begun
--          {0}  a count is set already; nothing is changed
--
-- Work: O(1), writes two keys. Sent twice, it acts once.
if redis.call('EXISTS', KEYS[2]) == 1 then
  return answer({0})
end
-- Above those of all rounds before: by the time where their numbers are gone, and above the last number while it is there, as the
-- clock may have been set back since, or be that of another server. By any clock that lets a number end, the time is beyond it. What
-- is left is a clock that goes back, or another server's that is behind by more than numbers are kept, after the number had gone.
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
