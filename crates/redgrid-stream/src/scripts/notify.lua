-- notify.lua: wakes waiters for new entries of a stream.
--
-- KEYS[1]  stream   determines the slot of the message
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  where the message is published
-- ARGV[3]  id       the id of the added entry
-- Returns  the number of receivers
--
-- Work: O(subscribers), writes nothing. Sent twice, it wakes twice.
return redis.call(ARGV[1], ARGV[2], ARGV[3])
