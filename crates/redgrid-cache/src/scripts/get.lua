-- get.lua: what keys of a map cache have. Behind packed.lua.
--
-- ARGV[6]  use, where it counts as a use of the keys; has, where that and only whether they are there; peek, where nothing is to be changed
-- ARGV[7…] keys, 500 at most
-- Returns  of each its value, or nothing; of `has` 1 or 0
--
-- Work: O(keys * log n); takes out 100 that are over. Sent twice, it counts twice as a use.
local seen = 0
if ARGV[6] ~= 'peek' then
  seen = purge(MOST)
end
local found = {}
for i = 7, #ARGV do
  local value, idle = live(ARGV[i])
  if value and ARGV[6] ~= 'peek' then
    used(ARGV[i], idle)
  end
  if ARGV[6] == 'has' then
    value = value and 1 or 0
  end
  found[i - 6] = value or false
end
if (limit > 0 or seen > 0) and ARGV[6] ~= 'peek' then
  together()
end
return found
