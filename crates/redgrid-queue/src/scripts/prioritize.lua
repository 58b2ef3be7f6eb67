-- prioritize.lua: adds elements, each after those with the same priority, and notifies waiters.
-- insert_after.lua is its prelude.
--
-- KEYS[1]  sorted set of a priority queue
-- ARGV[1]  PUBLISH or SPUBLISH
-- ARGV[2]  channel; the message is the number of elements
-- ARGV[3…] priority in 8 bytes and element, alternately; up to 500 of them
-- Returns  the numbers of the elements, 8 bytes each, in their order
--
-- It publishes only if the queue was empty, because waiters exist only in that case.
--
-- Work: O(log n) for each. Not to be sent twice: the elements would be added twice.
local before = redis.call('ZCARD', KEYS[1])
local ids = {}
for at = 3, #ARGV, 2 do
  ids[#ids + 1] = insert_after(KEYS[1], ARGV[at], ARGV[at + 1])
end
if before == 0 and #ids > 0 then
  -- The elements are added even if publishing is refused: waiters also poll.
  redis.pcall(ARGV[1], ARGV[2], #ids)
end
return ids
