-- remove.lua: delete objects with all that belongs to them.
--
-- KEYS     rows as rule.lua has them
-- ARGV[1]  DEL or UNLINK
-- ARGV[2]  how many keys a row has
-- ARGV[3]  look, or nothing where the client knows that no row is a multimap
-- Returns  for each row whether anything was there: 1 or 0; -3 where it may be a multimap, of which nothing is deleted
--
-- Work: O(keys), and the size of what is deleted with DEL. Sent twice, it finds nothing the second time.
local command, each = ARGV[1], tonumber(ARGV[2])
local rows = {}
for at = 1, #KEYS, each do
  rows[#rows + 1] = row(at, each)
end
local removed = {}
for i = 1, #rows do
  if ARGV[3] == 'look' and may_be_multimap(rows[i][1]) then
    removed[i] = -3
  else
    removed[i] = redis.call(command, unpack(rows[i])) > 0 and 1 or 0
  end
end
return removed
