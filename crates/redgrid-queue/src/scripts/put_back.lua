-- put_back.lua: elements that were taken for callers who have left.
--
-- KEYS[2]  a name of this request's own: nothing is there, its memory is named by it
-- KEYS[3]  list
-- ARGV[4]  LPUSH or RPUSH
-- ARGV[5]  PUBLISH or SPUBLISH
-- ARGV[6]  channel; the message is how many there are
-- ARGV[7]… elements, in the order in which they are pushed
-- Returns  {how many there are}
--
-- Work: O(1) for each. Sent twice, it acts once.
local length = redis.call(ARGV[4], KEYS[3], unpack(ARGV, 7))
redis.pcall(ARGV[5], ARGV[6], length)
return answer({length})
