-- has_value.lua: searches one page of a map for a value.
--
-- KEYS[1]  map
-- ARGV[1]  cursor, 0 at first
-- ARGV[2]  the value
-- ARGV[3]  COUNT of the page, about the number of entries
-- Returns  {next cursor, 1 found or 0 not}
--
-- Work: O(ARGV[3]), only reads. Sent twice, it searches twice.
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[3])
for i = 2, #page[2], 2 do
  if page[2][i] == ARGV[2] then
    return {page[1], 1}
  end
end
return {page[1], 0}
