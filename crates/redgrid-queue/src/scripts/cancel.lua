-- cancel.lua: what was delayed or has a priority, and is still there, goes.
--
-- KEYS[1]  sorted set: elements behind an id
-- ARGV[1]  the element behind its id
-- Returns  1 it has gone; 0 it is not there: taken, moved by a client of Redisson, cancelled before, or at another priority
--
-- Work: O(log n). Sent twice, it may say that it is not there.
return redis.call('ZREM', KEYS[1], ARGV[1])
