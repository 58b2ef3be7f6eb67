-- exclusion.lua: the common prelude of changes, which determines the objects that stay as they are.
-- Appended to holders.lua and ownership.lua.

-- Returns the status of an object that the words in ARGV[3] exclude from the change, otherwise nil.
local function exclusion(key)
  if string.find(ARGV[3], 'locks', 1, true) and is_lock(key) then
    return -4
  end
  if string.find(ARGV[3], 'multimaps', 1, true) and may_be_multimap(key) then
    return -3
  end
  return nil
end

