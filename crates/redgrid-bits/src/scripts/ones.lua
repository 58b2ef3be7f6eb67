-- ones.lua: some bytes, the first of which has a bit that is set.
--
-- KEYS[1]  the bits   string
-- ARGV[1]  the byte to begin at
-- ARGV[2]  how many bytes at most
-- Returns  {where they begin, the bytes}
--          {}   no bit from there on is set
--
-- Work: as BITPOS, and ARGV[2] bytes. Only reads.
local found = redis.call('BITPOS', KEYS[1], 1, ARGV[1])
if found < 0 then
  return {}
end
local at = math.floor(found / 8)
return {at, redis.call('GETRANGE', KEYS[1], at, at + ARGV[2] - 1)}
