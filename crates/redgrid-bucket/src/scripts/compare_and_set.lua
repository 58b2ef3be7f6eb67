-- compare_and_set.lua: sets a value if it is the expected one.
--
-- KEYS[1]  value
-- ARGV[1]  1 to return the current value if it is not the expected one
-- ARGV[2]  the expected value
-- ARGV[3]  the new value
-- ARGV[4…] options of SET for the lifetime
-- Returns  1 it is set; otherwise 0 or, with ARGV[1], a list with the current value or nothing
--
-- Work: O(1) and the sizes. Not to be sent twice: others may have restored the expected value after
-- the first copy.
local current = redis.call('GET', KEYS[1])
if current ~= ARGV[2] then
  return ARGV[1] == '1' and {current} or 0
end
redis.call('SET', KEYS[1], unpack(ARGV, 3))
return 1
