-- acknowledge.lua: reports to a transaction of Redisson that its keys are no longer cached here.
--
-- KEYS[1]  map; the script runs in its slot, and does not access it
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel of the transaction
-- ARGV[3]  message
-- Returns  number of subscribers that received it
--
-- Work: O(1), writes nothing. Not to be sent twice: one client would count for two.
return redis.call(ARGV[1], ARGV[2], ARGV[3])
