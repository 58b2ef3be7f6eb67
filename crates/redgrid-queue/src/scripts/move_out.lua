-- move_out.lua: one element from an end of a priority queue to an end of a list.
--
-- KEYS[1]  sorted set of a priority queue
-- KEYS[2]  list that it goes to
-- ARGV[1]  0 or -1: the first, or the last
-- ARGV[2]  LPUSH or RPUSH
-- ARGV[3]  PUBLISH or SPUBLISH
-- ARGV[4]  channel of the second; the message is how many there are
-- Returns  the member, which has priority and number in front of the element; nothing where there is none
--
-- Work: O(log n). Not to be sent twice: two would be moved.
local member = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not member then
  return false
end
if #member < 16 then
  return redis.error_reply('ERR a member of the priority queue is none: 16 bytes in front of an element are expected')
end
-- Who may not remove is refused here, where nothing is written: no member is as short as this.
redis.call('ZREM', KEYS[1], string.sub(member, 1, 15))
local length = redis.call(ARGV[2], KEYS[2], string.sub(member, 17))
redis.call('ZREM', KEYS[1], member)
if length == 1 then
  redis.pcall(ARGV[3], ARGV[4], 1)
end
return member
