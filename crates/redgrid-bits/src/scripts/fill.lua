-- fill.lua: sets or clears the bits of a range with one write.
--
-- KEYS[1]  the bits   string
-- ARGV[1]  the first bit
-- ARGV[2]  the first bit after the range; greater than ARGV[1]
-- ARGV[3]  1 to set them, 0 to clear them
-- Returns  1; 0 after clearing if no bits are stored at or after ARGV[2]
--
-- Work: O(bytes of the range). Bits beyond the end of the string are clear; clearing does not
-- extend the string. Sent twice, it does the same.
local from, to, set = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local more = 1
if not set then
  local size = redis.call('STRLEN', KEYS[1]) * 8
  more = to < size and 1 or 0
  to = math.min(to, size)
end
if from >= to then
  return more
end
local first, last = math.floor(from / 8), math.floor((to - 1) / 8)
local function filled(index)
  local mask = 255
  if index == first then
    mask = bit.band(mask, 2 ^ (8 - from % 8) - 1)
  end
  if index == last then
    mask = bit.band(mask, 256 - 2 ^ (7 - (to - 1) % 8))
  end
  local byte = string.byte(redis.call('GETRANGE', KEYS[1], index, index)) or 0
  return string.char(set and bit.bor(byte, mask) or bit.band(byte, 255 - mask))
end
local bytes = filled(first)
if last > first then
  bytes = bytes .. string.rep(string.char(set and 255 or 0), last - first - 1) .. filled(last)
end
redis.call('SETRANGE', KEYS[1], first, bytes)
return more
