-- scan.lua: reads a page of a map cache. Appended to packed.lua.
--
-- ARGV[6]  cursor, 0 at first
-- ARGV[7]  the number of entries to visit, approximately
-- ARGV[8]  a pattern of keys, or nothing
-- Returns  {next cursor, for each entry that is not expired its key and its value}
--
-- Work: O(ARGV[7]); read-only, and does not count as an access.
local page = redis.call('HSCAN', KEYS[1], ARGV[6], 'COUNT', ARGV[7], 'MATCH', ARGV[8] == '' and '*' or ARGV[8])
local found = {}
for i = 1, #page[2], 2 do
  local value = read_live(page[2][i])
  if value then
    found[#found + 1] = page[2][i]
    found[#found + 1] = value
  end
end
return {page[1], found}
