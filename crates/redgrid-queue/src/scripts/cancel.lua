-- cancel.lua: what was delayed, and is still there, goes.
--
-- KEYS[1]  sorted set: elements behind an id, by when they are due
-- ARGV[1]  the element behind its id
-- Returns  1 it has gone; 0 it is not there: taken, moved by a client of Redisson, or cancelled before
--
-- Work: O(log n). Sent twice, it may say that it is not there.
return redis.call('ZREM', KEYS[1], ARGV[1])
