-- publish_and_run.lua: runs a command on a map and publishes the change to all caches.
--
-- KEYS[1]  map
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  topic
-- ARGV[3]  message
-- ARGV[4]  command  HSET, HDEL, HINCRBY, HINCRBYFLOAT, DEL or HLEN
-- ARGV[5…] its arguments after the map
-- Returns  the reply of the command
--
-- The message is published first: a user without permission to publish changes nothing, and a
-- superfluous message does no harm.
-- Work: that of the command, which has 1,000 arguments at most. Sent twice, it is executed twice.
redis.call(ARGV[1], ARGV[2], ARGV[3])
return redis.call(ARGV[4], KEYS[1], unpack(ARGV, 5))
