-- create_layout.lua: stores the shard layout of a sharded object, if there is none.
--
-- KEYS[1]  the shard layout   hash
-- ARGV     all of its fields and values
-- Returns  {1, fields and values}   the layout is stored
--          {0, fields and values}   this layout was already stored, and is kept
--
-- Work: O(1), writes one key. Sent twice, the second copy changes nothing, and returns the same
-- fields and values with 0.
local stored = redis.call('HGETALL', KEYS[1])
if #stored > 0 then
  return {0, stored}
end
redis.call('HSET', KEYS[1], unpack(ARGV))
return {1, ARGV}
