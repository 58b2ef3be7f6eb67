-- compare_and_set.lua: set a number if it is what is expected. Behind once.lua or plain.lua, and integers.lua or doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4]  expected
-- ARGV[5]  new
-- ARGV[6]  keep      `1`: its lifetime stays; else it has none from now on, as after a SET
-- Returns  {set, was}   `1` or `0`, and the number as it was
--
-- Work: O(1), writes one key.
local was = redis.call('GET', KEYS[2]) or '0'
if was ~= ARGV[4] and (not valid(was) or less(was, ARGV[4]) or less(ARGV[4], was)) then
  return answer({'0', was})
end
if ARGV[6] == '1' then
  redis.call('SET', KEYS[2], ARGV[5], 'KEEPTTL')
else
  redis.call('SET', KEYS[2], ARGV[5])
end
return answer({'1', was})
