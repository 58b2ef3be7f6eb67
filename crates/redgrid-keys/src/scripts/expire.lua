-- expire.lua: sets or removes the TTLs of objects and of all keys that belong to them. Appended to
-- ownership.lua and exclusion.lua.
--
-- KEYS     rows, as described in ownership.lua
-- ARGV[1]  PEXPIRE, PEXPIREAT or PERSIST
-- ARGV[2]  the number of keys of a row
-- ARGV[3]  words: the objects that stay as they are. `multimaps`: those that may be multimaps;
--          absent if the client knows that none of them is one. `locks`: held locks
-- ARGV[4]  milliseconds, except for PERSIST
-- Returns  for each row 1 if anything was changed, or 0; -3 if it may be a multimap, and -4 if it
--          is a held lock, which was not changed
--
-- Work: O(keys), writes the existing keys. Sent twice, it does the same, but the second copy of a
-- PEXPIRE sets a later end.
local command, width = ARGV[1], tonumber(ARGV[2])
local rows = {}
for at = 1, #KEYS, width do
  rows[#rows + 1] = owned_keys(at, width)
end
local changed = {}
for i = 1, #rows do
  local excluded = exclusion(rows[i][1])
  changed[i] = excluded or 0
  for n = 1, excluded and 0 or #rows[i] do
    local done
    if command == 'PERSIST' then
      done = redis.call('PERSIST', rows[i][n])
    else
      done = redis.call(command, rows[i][n], ARGV[4])
    end
    if done == 1 then
      changed[i] = 1
    end
  end
end
return changed
