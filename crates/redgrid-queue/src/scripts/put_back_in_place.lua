-- put_back_in_place.lua: puts elements that were taken from a priority queue, and that no caller
-- has claimed, back to their previous positions.
--
-- KEYS[2]  unique  a key that does not exist and that only this request names; the name of the
--                  deduplication key is derived from it
-- KEYS[3]  sorted set of a priority queue
-- ARGV[4]  PUBLISH or SPUBLISH
-- ARGV[5]  channel; the message is the number of elements
-- ARGV[6…] members: priority, number, element
-- Returns  {number of elements}
--
-- If a failover to a replica has lost the removal, the member still exists. It is not added again.
--
-- Work: O(log n) for each. Sent twice, it acts once.
for at = 6, #ARGV do
  redis.call('ZADD', KEYS[3], 'NX', 0, ARGV[at])
end
local length = redis.call('ZCARD', KEYS[3])
redis.pcall(ARGV[4], ARGV[5], length)
return answer({length})
