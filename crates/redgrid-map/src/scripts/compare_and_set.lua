-- compare_and_set.lua: sets the value of a key if it is the expected one.
--
-- KEYS[1]  map
-- ARGV[1]  1 to return the current value if it is not the expected one
-- ARGV[2]  key
-- ARGV[3]  expected value
-- ARGV[4]  new value
-- Returns  1 set; 0 not set, or, with ARGV[1], a list of the current value or nil
--
-- Work: O(1) plus the sizes of the values. Not to be sent twice: the first transmission may have
-- set the value, and another client may have changed it back.
local current = redis.call('HGET', KEYS[1], ARGV[2])
if current ~= ARGV[3] then
  return ARGV[1] == '1' and {current} or 0
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
return 1
