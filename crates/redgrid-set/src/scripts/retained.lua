-- retained.lua: the end of the scripts that retain: `stay` are the arguments of `insert`, `width` of them for a value, and `count` counts values.
--
-- What is not allowed stops it before the set is gone: each command of its end is there once before, to no effect.
local removed = redis.call(count, KEYS[1]) - #stay / width
if removed == 0 then
  return 0
end
if #stay == 0 then
  redis.call('UNLINK', KEYS[1])
  return removed
end
local left = redis.call('PTTL', KEYS[1])
redis.call(insert, KEYS[1], unpack(stay, 1, width))
if left >= 0 then
  redis.call('PEXPIRE', KEYS[1], math.max(left, 1))
end
redis.call('UNLINK', KEYS[1])
for i = 1, #stay, 5000 do
  redis.call(insert, KEYS[1], unpack(stay, i, math.min(i + 4999, #stay)))
end
if left >= 0 then
  redis.call('PEXPIRE', KEYS[1], math.max(left, 1))
end
return removed
