-- belongs.lua: whether what is beside an object belongs to it.
--
-- KEYS     one row as rule.lua has it
-- Returns  those of its keys that are beside it and belong to it
--
-- Work: O(1), reads.
local all = row(1, #KEYS)
table.remove(all, 1)
return all
