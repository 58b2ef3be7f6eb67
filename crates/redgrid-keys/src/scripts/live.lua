-- live.lua: give objects, with all that belongs to them, an end of life, or none.
--
-- KEYS     rows as rule.lua has them
-- ARGV[1]  PEXPIRE, PEXPIREAT or PERSIST
-- ARGV[2]  how many keys a row has
-- ARGV[3]  look, or nothing where the client knows that no row is a multimap
-- ARGV[4]  milliseconds, but for PERSIST
-- Returns  for each row whether anything was changed: 1 or 0; -3 where it may be a multimap, of which nothing is changed
--
-- Work: O(keys), writes those that are there. Sent twice, it does the same, a PEXPIRE later by as much.
local command, each = ARGV[1], tonumber(ARGV[2])
local rows = {}
for at = 1, #KEYS, each do
  rows[#rows + 1] = row(at, each)
end
local changed = {}
for i = 1, #rows do
  local left = ARGV[3] == 'look' and may_be_multimap(rows[i][1])
  changed[i] = left and -3 or 0
  for n = 1, left and 0 or #rows[i] do
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
