-- reprioritize.lua: gives another priority to an element of a priority queue that still exists. The
-- element is placed after those that have this priority. insert_after.lua is its prelude.
--
-- KEYS[1]  sorted set of a priority queue
-- ARGV[1]  member: priority, number, element
-- ARGV[2]  the new priority in 8 bytes
-- Returns  the new number in 8 bytes; nothing if the member does not exist: it was taken or
--          removed, or has another priority
--
-- Work: O(log n). Sent twice, it may report that the member does not exist.
-- Removing a member that cannot exist, because it is too short, tests the right to remove. A user
-- without this right gets the error here, before any write.
redis.call('ZREM', KEYS[1], string.sub(ARGV[1], 1, 15))
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return false
end
local id = insert_after(KEYS[1], ARGV[2], string.sub(ARGV[1], 17))
redis.call('ZREM', KEYS[1], ARGV[1])
return id
