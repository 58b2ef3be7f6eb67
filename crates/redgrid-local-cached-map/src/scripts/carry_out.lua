-- carry_out.lua: a command on a map, told to all who keep it.
--
-- KEYS[1]  map
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  topic
-- ARGV[3]  message
-- ARGV[4]  command  HSET, HDEL, HINCRBY, HINCRBYFLOAT or DEL
-- ARGV[5…] its arguments behind the map
-- Returns  what the command does
--
-- The message goes first: who may not publish changes nothing, and a message too many does no harm.
-- Work: that of the command, whose arguments are 1,000 at most. Sent twice, it is carried out twice.
redis.call(ARGV[1], ARGV[2], ARGV[3])
return redis.call(ARGV[4], KEYS[1], unpack(ARGV, 5))
