-- retain_sorted.lua: no values in a sorted set but some.
--
-- KEYS[1]  sorted set
-- ARGV     the values that stay, if they are in
-- Returns  how many are removed
--
-- Work: O(ARGV log n); the memory is freed in the background. Sent twice, the second removes nothing, but what others have inserted
-- meanwhile. What is not allowed stops it before the set is gone: each command of its end is there once before, to no effect.
local stay, seen = {}, {}
for i = 1, #ARGV do
  local score = not seen[ARGV[i]] and redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score then
    seen[ARGV[i]] = true
    stay[#stay + 1] = score
    stay[#stay + 1] = ARGV[i]
  end
end
local removed = redis.call('ZCARD', KEYS[1]) - #stay / 2
if removed == 0 then
  return 0
end
if #stay == 0 then
  redis.call('UNLINK', KEYS[1])
  return removed
end
local left = redis.call('PTTL', KEYS[1])
redis.call('ZADD', KEYS[1], stay[1], stay[2])
if left >= 0 then
  redis.call('PEXPIRE', KEYS[1], math.max(left, 1))
end
redis.call('UNLINK', KEYS[1])
for i = 1, #stay, 5000 do
  redis.call('ZADD', KEYS[1], unpack(stay, i, math.min(i + 4999, #stay)))
end
if left >= 0 then
  redis.call('PEXPIRE', KEYS[1], math.max(left, 1))
end
return removed
