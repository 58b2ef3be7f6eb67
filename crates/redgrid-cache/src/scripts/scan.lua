-- scan.lua: a page of a map cache. Behind packed.lua.
--
-- ARGV[6]  where to go on, 0 at first
-- ARGV[7]  how many are looked at, about
-- ARGV[8]  a pattern of keys, or nothing
-- Returns  {where to go on, a key and its value for each that is not over}
--
-- Work: O(ARGV[7]); only reads, and counts as no use.
local page = redis.call('HSCAN', KEYS[1], ARGV[6], 'COUNT', ARGV[7], 'MATCH', ARGV[8] == '' and '*' or ARGV[8])
local found = {}
for i = 1, #page[2], 2 do
  local value = live(page[2][i])
  if value then
    found[#found + 1] = page[2][i]
    found[#found + 1] = value
  end
end
return {page[1], found}
