-- move.lua: one element from an end of a list to an end of another, or of the same.
--
-- KEYS[1]  list
-- KEYS[2]  list that it goes to
-- ARGV[1]  LEFT or RIGHT: from where
-- ARGV[2]  LEFT or RIGHT: to where
-- ARGV[3]  PUBLISH or SPUBLISH
-- ARGV[4]  channel of the second; the message is how many there are
-- Returns  the element; nothing where there is none
--
-- Work: O(1). Not to be sent twice: two would be moved.
local moved = redis.call('LMOVE', KEYS[1], KEYS[2], ARGV[1], ARGV[2])
if moved and redis.pcall('LLEN', KEYS[2]) == 1 then
  redis.pcall(ARGV[3], ARGV[4], 1)
end
return moved
