-- length.lua: returns the index of the highest set bit, plus one.
--
-- KEYS[1]  the bits   string
-- Returns  the highest set bit + 1; 0 if no bit is set
--
-- Work: each byte is read at most once. Read-only.
if redis.call('BITPOS', KEYS[1], 1) < 0 then
  return 0
end
-- Invariant: a bit is set at or after byte `low`, and no bit is set at or after byte `high`.
local low, high = 0, redis.call('STRLEN', KEYS[1])
while high - low > 1 do
  local middle = math.floor((low + high) / 2)
  local found = redis.call('BITPOS', KEYS[1], 1, middle, high - 1)
  if found < 0 then
    high = middle
  else
    low = math.floor(found / 8)
  end
end
local byte, trailing_zeros = string.byte(redis.call('GETRANGE', KEYS[1], low, low)), 0
while byte % 2 == 0 do
  byte, trailing_zeros = byte / 2, trailing_zeros + 1
end
return low * 8 + 8 - trailing_zeros
