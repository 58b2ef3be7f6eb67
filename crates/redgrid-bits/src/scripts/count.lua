-- count.lua: how many bits of a range are set.
--
-- KEYS[1]  the bits   string
-- ARGV[1]  the first bit
-- ARGV[2]  the first bit behind the range; behind ARGV[1]
-- Returns  how many
--
-- Work: as BITCOUNT of the bytes. Only reads.
local from, to = tonumber(ARGV[1]), tonumber(ARGV[2])
local first, last = math.floor(from / 8), math.floor((to - 1) / 8)
local count = redis.call('BITCOUNT', KEYS[1], first, last)
-- What is in the first and the last byte beside the range.
local function beside(at, mask)
  local byte = bit.band(string.byte(redis.call('GETRANGE', KEYS[1], at, at)) or 0, mask)
  while byte > 0 do
    count = count - byte % 2
    byte = math.floor(byte / 2)
  end
end
beside(first, 256 - 2 ^ (8 - from % 8))
beside(last, 2 ^ (7 - (to - 1) % 8) - 1)
return count
