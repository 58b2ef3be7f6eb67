-- put_back_in_place.lua: elements of a priority queue that were taken for callers who have left, where they were. Behind behind.lua.
--
-- KEYS[2]  a name of this request's own: nothing is there, its memory is named by it
-- KEYS[3]  sorted set of a priority queue
-- ARGV[4]  PUBLISH or SPUBLISH
-- ARGV[5]  channel; the message is how many there are
-- ARGV[6]… members: elements behind priority and number
-- Returns  {how many there are}
--
-- Work: O(log n) for each. Sent twice, it acts once.
for at = 6, #ARGV do
  if redis.call('ZADD', KEYS[3], 'NX', 0, ARGV[at]) == 0 then
    -- A clock that was set back has given its number to another that is the same: both stay.
    behind(KEYS[3], string.sub(ARGV[at], 1, 8), string.sub(ARGV[at], 17))
  end
end
local length = redis.call('ZCARD', KEYS[3])
redis.pcall(ARGV[4], ARGV[5], length)
return answer({length})
