-- insert_after.lua: prelude of the scripts that add to a priority queue. An element is placed after
-- all elements of its priority.
--
-- A member consists of the priority in 8 bytes, a number in 8 bytes, and the element. The byte
-- order of priorities is their numeric order. All scores are 0, so members are ordered by their
-- bytes.
--
-- The number is the server's time in microseconds. If the last member with this priority has this
-- number or a higher one, the new number is one more than that. So a clock that is set back does
-- not change the order of existing members. No member is overwritten, even if the number of the
-- last one cannot be read because another program has added it: the numbers of one script are
-- consecutive, and a number that exists is skipped.
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
-- Adds an element; returns its number in 8 bytes.
local function insert_after(key, priority, element)
  local last = redis.call('ZRANGE', key, '(' .. priority .. string.rep('\255', 9), '[' .. priority, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local number = micros
  if last and #last >= 16 then
    local high, low = struct.unpack('>I4I4', string.sub(last, 9, 16))
    local next = high * 4294967296 + low + 1
    -- Lua's integers are exact up to 2^53, which is slightly more. redgrid writes no higher number.
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
