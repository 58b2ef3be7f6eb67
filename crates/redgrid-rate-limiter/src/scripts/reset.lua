-- reset.lua: replenish all permits of the generic cell rate algorithm.
--
-- KEYS[1]  time     as in gcra.lua
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  where waiting clients are notified
-- Returns  1 if the key existed, otherwise 0
--
-- Work: O(1). Sent twice, it acts twice.
local there = redis.call('DEL', KEYS[1])
redis.pcall(ARGV[1], ARGV[2], '0')
return there
