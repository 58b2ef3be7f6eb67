-- move.lua: moves one element from an end of a list to an end of another or of the same list.
--
-- KEYS[1]  source: list
-- KEYS[2]  destination: list
-- ARGV[1]  LEFT or RIGHT: the end of the source
-- ARGV[2]  LEFT or RIGHT: the end of the destination
-- ARGV[3]  PUBLISH or SPUBLISH
-- ARGV[4]  channel of the destination; the message is its length
-- Returns  the element; nothing if the source is empty
--
-- Work: O(1). Not to be sent twice: two elements would be moved.
local moved = redis.call('LMOVE', KEYS[1], KEYS[2], ARGV[1], ARGV[2])
if moved and redis.pcall('LLEN', KEYS[2]) == 1 then
  redis.pcall(ARGV[3], ARGV[4], 1)
end
return moved
