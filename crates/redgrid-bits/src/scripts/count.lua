-- count.lua: counts the set bits of a range.
--
-- KEYS[1]  the bits   string
-- ARGV[1]  the first bit
-- ARGV[2]  the first bit after the range; greater than ARGV[1]
-- Returns  the number of set bits
--
-- Work: that of BITCOUNT on the bytes. Read-only.
local from, to = tonumber(ARGV[1]), tonumber(ARGV[2])
local first, last = math.floor(from / 8), math.floor((to - 1) / 8)
local count = redis.call('BITCOUNT', KEYS[1], first, last)
-- Subtracts the set bits of the first or the last byte that are outside of the range.
local function subtract_outside(index, mask)
  local byte = bit.band(string.byte(redis.call('GETRANGE', KEYS[1], index, index)) or 0, mask)
  while byte > 0 do
    count = count - byte % 2
    byte = math.floor(byte / 2)
  end
end
subtract_outside(first, 256 - 2 ^ (8 - from % 8))
subtract_outside(last, 2 ^ (7 - (to - 1) % 8) - 1)
return count
