-- prioritize.lua: elements with their priorities, each behind those that have the same; and a word to those who wait. Behind behind.lua.
--
-- KEYS[1]  sorted set of a priority queue
-- ARGV[1]  PUBLISH or SPUBLISH
-- ARGV[2]  channel; the message is how many there are
-- ARGV[3]  priority in 8 bytes, and ARGV[4] an element; and so on, 500 of them at most
-- Returns  the numbers in 8 bytes, in their order
--
-- Work: O(log n) for each. Who waits has found none, so it is published only where there was none. Not to be sent twice: they would be in twice.
local before = redis.call('ZCARD', KEYS[1])
local ids = {}
for at = 3, #ARGV, 2 do
  ids[#ids + 1] = behind(KEYS[1], ARGV[at], ARGV[at + 1])
end
if before == 0 and #ids > 0 then
  -- They are in already: a message that may not be sent does not undo it, and who waits looks by itself.
  redis.pcall(ARGV[1], ARGV[2], #ids)
end
return ids
