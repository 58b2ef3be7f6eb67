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

-- Counted before anything is written.
local subscribers = redis.call('ZCARD', KEYS[2])
local id = redis.call('XADD', KEYS[1], '*', 'm', ARGV[1])
-- If publishing is not permitted, the message is added all the same: subscribers also poll.
redis.pcall(ARGV[2], ARGV[3], id)
return {id, subscribers}
