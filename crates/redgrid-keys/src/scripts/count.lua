-- count.lua: checks whether objects exist. Appended to ownership.lua.
--
-- KEYS     rows: the key of a name, `{name}:config`, and the keys of object types that may have no
--          key with the plain name
-- ARGV[1]  EXISTS or TOUCH
-- ARGV[2]  the number of keys of a row
-- Returns  for each row 1 or 0
--
-- Work: O(keys). Sent twice, it does the same.
local command, width = ARGV[1], tonumber(ARGV[2])
local exists = {}
for at = 1, #KEYS, width do
  local found = redis.call(command, KEYS[at], unpack(KEYS, at + 2, at + width - 1))
  if is_filter(KEYS[at], KEYS[at + 1]) then
    found = found + redis.call(command, KEYS[at + 1])
  end
  exists[#exists + 1] = found > 0 and 1 or 0
end
return exists
