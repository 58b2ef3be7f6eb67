-- publish.lua: add a message, and tell who looks for some.
--
-- KEYS[1]  stream   the messages
-- KEYS[2]  ends     sorted set: subscribers by when they end
-- ARGV[1]  message  as its codec writes it
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  the message is the id
-- Returns  {id, subscribers}
--
-- Work: O(1), writes one key. Sent twice, it adds two.

-- Before anything is written.
local subscribers = redis.call('ZCARD', KEYS[2])
local id = redis.call('XADD', KEYS[1], '*', 'm', ARGV[1])
-- Who may not publish has added it; those who listen look by themselves.
redis.pcall(ARGV[2], ARGV[3], id)
return {id, subscribers}
