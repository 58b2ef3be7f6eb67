-- reprioritize.lua: an element of a priority queue that is still there gets another priority, and is behind those that have it. Behind behind.lua.
--
-- KEYS[1]  sorted set of a priority queue
-- ARGV[1]  member: the element behind its priority and number
-- ARGV[2]  priority in 8 bytes
-- Returns  the number in 8 bytes; nothing where it is not there: taken, cancelled, or given another priority before
--
-- Work: O(log n). Sent twice, it may say that it is not there.
-- Who may not remove is refused here, where nothing is written: no member is as short as this.
redis.call('ZREM', KEYS[1], string.sub(ARGV[1], 1, 15))
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return false
end
local id = behind(KEYS[1], ARGV[2], string.sub(ARGV[1], 17))
redis.call('ZREM', KEYS[1], ARGV[1])
return id
