-- push.lua: elements at an end of a list, and a word to those who wait.
--
-- KEYS[1]  list
-- ARGV[1]  RPUSH or LPUSH, or RPUSHX or LPUSHX: only where it is there
-- ARGV[2]  PUBLISH or SPUBLISH
-- ARGV[3]  channel; the message is how many there are
-- ARGV[4]… elements, 500 at most
-- Returns  how many elements there are
--
-- Work: O(1) for each. Who waits has found none, so it is published only where there was none. Not to be sent twice: they would be in twice.
local length = redis.call(ARGV[1], KEYS[1], unpack(ARGV, 4))
if length > 0 and length == #ARGV - 3 then
  -- They are in already: a message that may not be sent does not undo it, and who waits looks by itself.
  redis.pcall(ARGV[2], ARGV[3], length)
end
return length
