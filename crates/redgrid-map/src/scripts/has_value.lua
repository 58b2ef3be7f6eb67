-- has_value.lua: whether a part of a map has a value.
--
-- KEYS[1]  map
-- ARGV[1]  where to go on, 0 at first
-- ARGV[2]  the value
-- ARGV[3]  how many are looked at, about
-- Returns  {where to go on, 1 or 0}
--
-- Work: O(ARGV[3]), only reads. Sent twice, it looks twice.
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[3])
for i = 2, #page[2], 2 do
  if page[2][i] == ARGV[2] then
    return {page[1], 1}
  end
end
return {page[1], 0}
