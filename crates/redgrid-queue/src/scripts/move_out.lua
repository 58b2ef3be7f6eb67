-- move_out.lua: moves one element from an end of a priority queue to an end of a list.
--
-- KEYS[1]  sorted set of a priority queue
-- KEYS[2]  destination: list
-- ARGV[1]  0 or -1: the first or the last member
-- ARGV[2]  LPUSH or RPUSH: the end of the destination
-- ARGV[3]  PUBLISH or SPUBLISH
-- ARGV[4]  channel of the destination; the message is its length
-- Returns  the member: priority, number, element; nothing if there is none
--
-- Work: O(log n). Not to be sent twice: two elements would be moved.
local member = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not member then
  return false
end
if #member < 16 then
  return redis.error_reply('ERR a member of the sorted set is not one of a priority queue: it is shorter than 16 bytes')
end
-- Removing a member that cannot exist, because it is too short, tests the right to remove. A user
-- without this right gets the error here, before any write.
redis.call('ZREM', KEYS[1], string.sub(member, 1, 15))
local length = redis.call(ARGV[2], KEYS[2], string.sub(member, 17))
redis.call('ZREM', KEYS[1], member)
if length == 1 then
  redis.pcall(ARGV[3], ARGV[4], 1)
end
return member
