-- retained.lua: the end of the scripts that retain values. It replaces the set by the values in
-- `retained`, which has `width` arguments of the command `insert` for each value. The command
-- `count` returns the number of values.
--
-- A command that is refused fails before the set is deleted: each command that runs after the
-- deletion has already run once before it, without an effect.
local removed = redis.call(count, KEYS[1]) - #retained / width
if removed == 0 then
  return 0
end
if #retained == 0 then
  redis.call('UNLINK', KEYS[1])
  return removed
end
local ttl = redis.call('PTTL', KEYS[1])
redis.call(insert, KEYS[1], unpack(retained, 1, width))
if ttl >= 0 then
  redis.call('PEXPIRE', KEYS[1], math.max(ttl, 1))
end
redis.call('UNLINK', KEYS[1])
for i = 1, #retained, 5000 do
  redis.call(insert, KEYS[1], unpack(retained, i, math.min(i + 4999, #retained)))
end
if ttl >= 0 then
  redis.call('PEXPIRE', KEYS[1], math.max(ttl, 1))
end
return removed
