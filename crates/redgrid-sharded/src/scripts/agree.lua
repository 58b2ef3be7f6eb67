-- agree.lua: says how a sharded object is divided, if nobody has said so before.
--
-- KEYS[1]  how it is divided   hash
-- ARGV     fields and values: all of it
-- Returns  {1, fields and values}   said now
--          {0, fields and values}   this was said before, and stays
--
-- Work: O(1), writes one key. Sent twice, the second changes nothing and tells the same with 0.
local said = redis.call('HGETALL', KEYS[1])
if #said > 0 then
  return {0, said}
end
redis.call('HSET', KEYS[1], unpack(ARGV))
return {1, ARGV}
