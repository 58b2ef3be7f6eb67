-- put_back.lua: puts back elements that were taken from a list and that no caller has claimed.
--
-- KEYS[2]  unique  a key that does not exist and that only this request names; the name of the
--                  deduplication key is derived from it
-- KEYS[3]  list
-- ARGV[4]  LPUSH or RPUSH
-- ARGV[5]  PUBLISH or SPUBLISH
-- ARGV[6]  channel; the message is the length
-- ARGV[7…] elements, in the order in which they are pushed
-- Returns  {length}
--
-- Work: O(1) for each. Sent twice, it acts once.
local length = redis.call(ARGV[4], KEYS[3], unpack(ARGV, 7))
redis.pcall(ARGV[5], ARGV[6], length)
return answer({length})
