-- set_scan.lua: reads a page of a set cache.
--
-- KEYS[1]  set, see set_insert.lua
-- ARGV[1]  cursor, 0 at first
-- ARGV[2]  the number of values to visit, approximately
-- ARGV[3]  a pattern of values, or nothing
-- Returns  {next cursor, the values that are not expired}
--
-- Work: O(ARGV[2]); read-only.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local page = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2], 'MATCH', ARGV[3] == '' and '*' or ARGV[3])
local found = {}
for i = 1, #page[2], 2 do
  if tonumber(page[2][i + 1]) > now then
    found[#found + 1] = page[2][i]
  end
end
return {page[1], found}
