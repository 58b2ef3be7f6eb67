-- retain_sorted.lua, followed by retained.lua: removes all values of a sorted set except some.
--
-- KEYS[1]  sorted set
-- ARGV     the values to retain, if the set contains them
-- Returns  the number of removed values
--
-- Work: O(ARGV log n); the memory is freed in the background. Sent twice, the second copy removes
-- only values that others have inserted in between.
local count, insert, width = 'ZCARD', 'ZADD', 2
local retained, seen = {}, {}
for i = 1, #ARGV do
  local score = not seen[ARGV[i]] and redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score then
    seen[ARGV[i]] = true
    retained[#retained + 1] = score
    retained[#retained + 1] = ARGV[i]
  end
end
