-- put_back_in_place.lua: elements of a priority queue that were taken for callers who have left, where they were.
--
-- KEYS[2]  a name of this request's own: nothing is there, its memory is named by it
-- KEYS[3]  sorted set of a priority queue
-- ARGV[4]  PUBLISH or SPUBLISH
-- ARGV[5]  channel; the message is how many there are
-- ARGV[6]… members: elements behind priority and number
-- Returns  {how many there are}
--
-- What is there already with the same priority, number and element is the same one, as after a failover to a replica that did not know that it was
-- taken: it stays one.
--
-- Work: O(log n) for each. Sent twice, it acts once.
for at = 6, #ARGV do
  redis.call('ZADD', KEYS[3], 'NX', 0, ARGV[at])
end
local length = redis.call('ZCARD', KEYS[3])
redis.pcall(ARGV[4], ARGV[5], length)
return answer({length})
