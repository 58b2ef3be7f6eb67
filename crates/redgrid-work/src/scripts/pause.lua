-- pause.lua: pauses or resumes a queue. Appended to dedup.lua.
--
-- KEYS[2]  queue    hash; its field `paused` is since when it is paused, in milliseconds since 1970
-- ARGV[4]  publish  PUBLISH or SPUBLISH
-- ARGV[5]  channel  that wakes waiters
-- ARGV[6]  paused   1 to pause, 0 to resume
-- Returns  answer({1})  the queue was paused or resumed
--          answer({0})  it was so before, and is unchanged
--
-- Work: O(1). Sent twice, it acts once.

-- A server that is out of memory rejects writes that may need memory, unless the script has already
-- written. A queue can be paused even then. This write needs no memory, and changes nothing.
redis.call('HDEL', KEYS[2], '')
local is_paused = redis.call('HEXISTS', KEYS[2], 'paused')
if is_paused == tonumber(ARGV[6]) then
  return answer({0})
end
if is_paused == 0 then
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[2], 'paused', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
else
  redis.call('HDEL', KEYS[2], 'paused')
  -- If PUBLISH fails, the next poll of a waiter finds the messages.
  redis.pcall(ARGV[4], ARGV[5], '0')
end
return answer({1})
