-- reprioritize.lua: gives another priority to an element of a priority queue that still exists. It
-- is placed after those that have this priority. insert_after.lua comes before it.
--
-- KEYS[1]  sorted set of a priority queue
-- ARGV[1]  member: priority, number, element
-- ARGV[2]  the new priority in 8 bytes
-- Returns  the new number in 8 bytes; nothing if the member does not exist: it was taken or
--          removed, or has another priority
--
-- Work: O(log n). Sent twice, it may report that the member does not exist.
-- A user without the right to remove is refused here, before anything is written. No member is as
-- short as this.
redis.call('ZREM', KEYS[1], string.sub(ARGV[1], 1, 15))
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return false
end
local id = insert_after(KEYS[1], ARGV[2], string.sub(ARGV[1], 17))
redis.call('ZREM', KEYS[1], ARGV[1])
return id
