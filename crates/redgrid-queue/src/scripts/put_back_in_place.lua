-- put_back_in_place.lua: puts back elements of a priority queue that were taken and that no caller
-- has claimed, to where they were.
--
-- KEYS[2]  a key that no other request has and that does not exist; it names the deduplication key
-- KEYS[3]  sorted set of a priority queue
-- ARGV[4]  PUBLISH or SPUBLISH
-- ARGV[5]  channel; the message is the number of elements
-- ARGV[6…] members: priority, number, element
-- Returns  {number of elements}
--
-- A member that exists is the same element: after a failover to a replica that lacked its removal.
-- It stays one.
--
-- Work: O(log n) for each. Sent twice, it acts once.
for at = 6, #ARGV do
  redis.call('ZADD', KEYS[3], 'NX', 0, ARGV[at])
end
local length = redis.call('ZCARD', KEYS[3])
redis.pcall(ARGV[4], ARGV[5], length)
return answer({length})
