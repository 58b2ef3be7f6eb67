-- scan.lua: a page of the keys of a multimap that are not over. Behind head.lua.
--
-- ARGV[2]  where to go on, 0 at first
-- ARGV[3]  how many are looked at, about
-- ARGV[4]  a pattern of keys, or nothing
-- Returns  {where to go on, a key and its hash for each}
--
-- Work: O(ARGV[3]); only reads.
local page = redis.call('HSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3], 'MATCH', ARGV[4] == '' and '*' or ARGV[4])
local found = {}
for i = 1, #page[2], 2 do
  if not over(page[2][i]) then
    found[#found + 1] = page[2][i]
    found[#found + 1] = page[2][i + 1]
  end
end
return {page[1], found}
