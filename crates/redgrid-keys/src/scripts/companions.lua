-- companions.lua: determines the companions of an object. Appended to ownership.lua.
--
-- KEYS     the row of an object, as described in ownership.lua
-- Returns  the companions that belong to the object
--
-- Work: O(1), reads.
local owned = owned_keys(1, #KEYS)
table.remove(owned, 1)
return owned
