-- acknowledge.lua: tells a transaction of Redisson that its keys are kept here no more.
--
-- KEYS[1]  map, in whose slot it is carried out; not touched
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  the channel of the transaction
-- ARGV[3]  message
-- Returns  how many hear it
--
-- Work: O(1), writes nothing. Not to be sent twice: somebody would count for two.
return redis.call(ARGV[1], ARGV[2], ARGV[3])
