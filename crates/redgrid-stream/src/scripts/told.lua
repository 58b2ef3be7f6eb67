-- told.lua: wake who waits for entries of a stream.
--
-- KEYS[1]  stream   in whose slot it is told
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  where it is told
-- ARGV[3]  id       of the entry that was added
-- Returns  how many heard it
--
-- Work: O(listeners), writes nothing. Sent twice, it wakes twice.
return redis.call(ARGV[1], ARGV[2], ARGV[3])
