-- reset.lua: forget what was taken by the generic cell rate algorithm.
--
-- KEYS[1]  time     as in gcra.lua
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  who waits is told
-- Returns  how many keys there were: 1 or 0
--
-- Work: O(1). Sent twice, it forgets twice.
local there = redis.call('DEL', KEYS[1])
redis.pcall(ARGV[1], ARGV[2], '0')
return there
