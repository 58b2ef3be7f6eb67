-- behind.lua: where an element goes in a priority queue: behind all that have its priority. In front of the scripts that put one there.
--
-- A member is the priority in 8 bytes that are in the order of the numbers, a number in 8 bytes, and the element; all scores are 0, so that
-- members are in the order of their bytes. The number is the server's time in microseconds, or one more than that of the last that is there with
-- this priority, where that is higher: a clock that is set back changes no order among those that are there. Nor is any of them written over, also
-- where the last can not be told, as somebody else's member is in its place: those of one script have times in turn, and what is there already has
-- the next number.
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
-- Adds it; returns the number in its 8 bytes.
local function behind(key, priority, element)
  local last = redis.call('ZRANGE', key, '(' .. priority .. string.rep('\255', 9), '[' .. priority, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local number = micros
  if last and #last >= 16 then
    local high, low = struct.unpack('>I4I4', string.sub(last, 9, 16))
    local next = high * 4294967296 + low + 1
    -- Whole numbers are exact up to 2^53, which is a little more: a higher one is none of these.
    if next < 9000000000000000 then
      number = math.max(number, next)
    end
  end
  local id
  repeat
    id = struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296)
    number = number + 1
  until redis.call('ZADD', key, 'NX', 0, priority .. id .. element) == 1
  micros = micros + 1
  return id
end
