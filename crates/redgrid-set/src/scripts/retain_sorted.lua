-- retain_sorted.lua, with retained.lua behind it: no values in a sorted set but some.
--
-- KEYS[1]  sorted set
-- ARGV     the values that stay, if they are in
-- Returns  how many are removed
--
-- Work: O(ARGV log n); the memory is freed in the background. Sent twice, the second removes nothing, but what others have inserted
-- meanwhile.
local count, insert, width = 'ZCARD', 'ZADD', 2
local stay, seen = {}, {}
for i = 1, #ARGV do
  local score = not seen[ARGV[i]] and redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score then
    seen[ARGV[i]] = true
    stay[#stay + 1] = score
    stay[#stay + 1] = ARGV[i]
  end
end
