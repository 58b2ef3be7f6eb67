-- next.lua: the first bit from here on that is set, or that is clear.
--
-- KEYS[1]  the bits   string
-- ARGV[1]  where to begin
-- ARGV[2]  1: one that is set, 0: one that is clear
-- Returns  where it is; -1: no bit from there on is set
--
-- Work: as BITPOS. Only reads.
local from, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local length = redis.call('STRLEN', KEYS[1]) * 8
local at = math.floor(from / 8)
if from % 8 > 0 and from < length then
  local byte = string.byte(redis.call('GETRANGE', KEYS[1], at, at))
  for i = from % 8, 7 do
    if math.floor(byte / 2 ^ (7 - i)) % 2 == wanted then
      return at * 8 + i
    end
  end
  at = at + 1
  from = at * 8
end
-- Behind the end all are clear.
if from >= length then
  return wanted == 1 and -1 or from
end
return redis.call('BITPOS', KEYS[1], wanted, at)
