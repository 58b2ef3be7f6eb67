-- compare_and_set.lua: set a number if it equals an expected one. Behind dedup.lua or plain.lua,
-- and integers.lua or doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4]  expected
-- ARGV[5]  new
-- ARGV[6]  keep      `1`: the lifetime is kept; otherwise it is removed, as by SET
-- Returns  {set, previous}   `1` or `0`, and the previous number
--
-- Work: O(1), writes one key.
local previous = redis.call('GET', KEYS[2]) or '0'
if previous ~= ARGV[4] and (not parse(previous) or less(previous, ARGV[4]) or less(ARGV[4], previous)) then
  return answer({'0', previous})
end
if ARGV[6] == '1' then
  redis.call('SET', KEYS[2], ARGV[5], 'KEEPTTL')
else
  redis.call('SET', KEYS[2], ARGV[5])
end
return answer({'1', previous})
