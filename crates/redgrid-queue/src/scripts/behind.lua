-- behind.lua: where an element goes in a priority queue: behind all that have its priority. In front of the scripts that put one there.
--
-- A member is the priority in 8 bytes that are in the order of the numbers, a number in 8 bytes, and the element; all scores are 0, so that
-- members are in the order of their bytes. The number is the server's time in microseconds, or one more than that of the last that is there with
-- this priority, where that is higher: a clock that is set back changes no order among those that are there.
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
-- Adds it; returns the number in its 8 bytes.
local function behind(key, priority, element)
  local last = redis.call('ZRANGE', key, '(' .. priority .. string.rep('\255', 9), '[' .. priority, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local number = micros
  if last and #last >= 16 then
    local high, low = struct.unpack('>I4I4', string.sub(last, 9, 16))
    local next = high * 4294967296 + low + 1
    -- Whole numbers are exact up to there: a higher one is none of these.
    if next < 9007199254740992 then
      number = math.max(number, next)
    end
  end
  local id = struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296)
  redis.call('ZADD', key, 0, priority .. id .. element)
  return id
end
