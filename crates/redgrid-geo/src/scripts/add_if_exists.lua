-- add_if_exists.lua: sets the positions of members that exist.
--
-- KEYS[1]   positions   sorted set, in the format of GEOADD
-- ARGV[1..] for each member its longitude, its latitude and the member
-- Returns   the number of members that exist and have got their new positions
--
-- Work: O(log n) for each member. Sent twice, it does the same.
local existing = 0
for i = 1, #ARGV, 3 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i + 2]) then
    redis.call('GEOADD', KEYS[1], 'XX', ARGV[i], ARGV[i + 1], ARGV[i + 2])
    existing = existing + 1
  end
end
return existing
