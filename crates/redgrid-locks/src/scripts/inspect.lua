-- inspect.lua: who holds a lock, and for how long.
--
-- KEYS[1]  lock   hash; its fields are the holders
-- Returns  {left, holder, count, holder, count, …}; left is the PTTL, -2 when free
--
-- Work: O(holders), writes nothing. Sent twice, it answers twice.
local out = redis.call('HGETALL', KEYS[1])
table.insert(out, 1, tostring(redis.call('PTTL', KEYS[1])))
return out
