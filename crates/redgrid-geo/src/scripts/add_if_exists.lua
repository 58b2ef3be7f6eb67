-- add_if_exists.lua: moves members that are there.
--
-- KEYS[1]   places   sorted set, as GEOADD makes it
-- ARGV[1..] of each member its longitude, its latitude and itself
-- Returns   how many are there, and so are at their new places
--
-- Work: O(log n) for each. Sent twice, it does the same.
local there = 0
for i = 1, #ARGV, 3 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i + 2]) then
    redis.call('GEOADD', KEYS[1], 'XX', ARGV[i], ARGV[i + 1], ARGV[i + 2])
    there = there + 1
  end
end
return there
