-- scan.lua: a page of the keys of a multimap that have not expired. After key_prelude.lua.
--
-- ARGV[2]  cursor, 0 at first
-- ARGV[3]  COUNT of the page: about the number of keys
-- ARGV[4]  a pattern of keys, or an empty string
-- Returns  {next cursor, a key and its hash for each}
--
-- Work: O(ARGV[3]); only reads.
local page = redis.call('HSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3], 'MATCH', ARGV[4] == '' and '*' or ARGV[4])
local found = {}
for i = 1, #page[2], 2 do
  if not is_expired(page[2][i]) then
    found[#found + 1] = page[2][i]
    found[#found + 1] = page[2][i + 1]
  end
end
return {page[1], found}
