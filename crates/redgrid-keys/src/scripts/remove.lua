-- remove.lua: deletes objects with all keys that belong to them. Appended to ownership.lua
-- and exclusion.lua.
--
-- KEYS     rows, as described in ownership.lua
-- ARGV[1]  DEL or UNLINK
-- ARGV[2]  the number of keys of a row
-- ARGV[3]  words: the objects that stay as they are. `multimaps`: those that may be multimaps;
--          absent if the client knows that none of them is one. `locks`: held locks
-- Returns  for each row 1 if anything existed, or 0; -3 if it may be a multimap, and -4 if it is
--          a held lock, which was not deleted
--
-- Work: O(keys), and with DEL the size of the deleted values. Sent twice, the second copy finds no
-- keys.
local command, width = ARGV[1], tonumber(ARGV[2])
local rows = {}
for at = 1, #KEYS, width do
  rows[#rows + 1] = owned_keys(at, width)
end
local removed = {}
for i = 1, #rows do
  removed[i] = exclusion(rows[i][1]) or (redis.call(command, unpack(rows[i])) > 0 and 1 or 0)
end
return removed
