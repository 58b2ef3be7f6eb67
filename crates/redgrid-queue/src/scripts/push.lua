-- push.lua: adds elements at an end of a list, and notifies waiters.
--
-- KEYS[1]  list
-- ARGV[1]  RPUSH or LPUSH; or RPUSHX or LPUSHX: only if the list exists
-- ARGV[2]  PUBLISH or SPUBLISH
-- ARGV[3]  channel; the message is the length
-- ARGV[4…] elements, up to 500
-- Returns  the length
--
-- It publishes only if the list was empty, because waiters exist only in that case.
--
-- Work: O(1) for each. Not to be sent twice: the elements would be added twice.
local length = redis.call(ARGV[1], KEYS[1], unpack(ARGV, 4))
if length > 0 and length == #ARGV - 3 then
  -- The elements are added even if publishing is refused: waiters also poll.
  redis.pcall(ARGV[2], ARGV[3], length)
end
return length
