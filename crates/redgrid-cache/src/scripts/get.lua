-- get.lua: reads keys of a map cache. Appended to packed.lua.
--
-- ARGV[6]  use: return the values, which counts as an access; has: return only whether the keys
--          exist, which counts as an access, too; peek: return the values and change nothing
-- ARGV[7…] keys, 500 at most
-- Returns  for each key its value, or nothing; with `has` 1 or 0
--
-- Work: O(keys * log n); removes up to 100 expired entries. Sent twice, it counts as two accesses.
local purged = 0
if ARGV[6] ~= 'peek' then
  purged = purge(MAX_REMOVED)
end
local found = {}
for i = 7, #ARGV do
  local value, idle = read_live(ARGV[i])
  if value and ARGV[6] ~= 'peek' then
    record_access(ARGV[i], idle)
  end
  if ARGV[6] == 'has' then
    value = value and 1 or 0
  end
  found[i - 6] = value or false
end
if (limit > 0 or purged > 0) and ARGV[6] ~= 'peek' then
  sync_expiry()
end
return found
