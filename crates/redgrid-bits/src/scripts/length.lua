-- length.lua: the highest bit that is set, and one.
--
-- KEYS[1]  the bits   string
-- Returns  the highest set bit + 1; 0 where none is set
--
-- Work: each byte is looked at once at most. Only reads.
if redis.call('BITPOS', KEYS[1], 1) < 0 then
  return 0
end
-- In the byte at `low` or behind it a bit is set, and none from that at `high` on.
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
local byte, behind = string.byte(redis.call('GETRANGE', KEYS[1], low, low)), 0
while byte % 2 == 0 do
  byte, behind = byte / 2, behind + 1
end
return low * 8 + 8 - behind
