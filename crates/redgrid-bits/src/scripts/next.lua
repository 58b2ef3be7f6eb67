-- next.lua: finds the first set or the first clear bit, starting at an index.
--
-- KEYS[1]  the bits   string
-- ARGV[1]  the first index
-- ARGV[2]  1: a set bit, 0: a clear bit
-- Returns  its index; -1: no bit is set at or after the first index
--
-- Work: that of BITPOS. Read-only.
local from, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local length = redis.call('STRLEN', KEYS[1]) * 8
local byte_index = math.floor(from / 8)
if from % 8 > 0 and from < length then
  local byte = string.byte(redis.call('GETRANGE', KEYS[1], byte_index, byte_index))
  for i = from % 8, 7 do
    if math.floor(byte / 2 ^ (7 - i)) % 2 == wanted then
      return byte_index * 8 + i
    end
  end
  byte_index = byte_index + 1
  from = byte_index * 8
end
-- Bits beyond the end of the string are clear.
if from >= length then
  return wanted == 1 and -1 or from
end
return redis.call('BITPOS', KEYS[1], wanted, byte_index)
