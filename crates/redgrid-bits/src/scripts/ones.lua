-- ones.lua: reads a page of bytes that begins with the first byte that has a set bit.
--
-- KEYS[1]  the bits   string
-- ARGV[1]  the index of the first byte
-- ARGV[2]  the maximum number of bytes
-- Returns  {index of the first byte of the page, its bytes}
--          {}   no bit is set at or after the first byte
--
-- Work: that of BITPOS, and ARGV[2] bytes. Read-only.
local found = redis.call('BITPOS', KEYS[1], 1, ARGV[1])
if found < 0 then
  return {}
end
local byte_index = math.floor(found / 8)
return {byte_index, redis.call('GETRANGE', KEYS[1], byte_index, byte_index + ARGV[2] - 1)}
