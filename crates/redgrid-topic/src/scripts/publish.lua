-- publish.lua: adds a message, and notifies the subscribers.
--
-- KEYS[1]  stream   the messages
-- KEYS[2]  leases   sorted set: subscribers, scored by the end of their lease
-- ARGV[1]  message  encoded
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  where the id is published
-- Returns  {id, subscribers}
--
-- Work: O(1), writes one key. Sent twice, it adds two messages.

-- Subscribers are counted before the first write, because counting may fail.
local subscribers = redis.call('ZCARD', KEYS[2])
local id = redis.call('XADD', KEYS[1], '*', 'm', ARGV[1])
-- The message is added even if publishing is not permitted: subscribers also poll.
redis.pcall(ARGV[2], ARGV[3], id)
return {id, subscribers}
