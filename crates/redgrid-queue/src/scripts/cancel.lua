-- cancel.lua: removes an element that was delayed or has a priority, if it still exists.
--
-- KEYS[1]  sorted set
-- ARGV[1]  member: the element after its id, or after its priority and number
-- Returns  1 the member is removed; 0 it does not exist: it was taken, moved by a client of
--          Redisson, or removed earlier, or has another priority
--
-- Work: O(log n). Sent twice, it may report that the member does not exist.
return redis.call('ZREM', KEYS[1], ARGV[1])
