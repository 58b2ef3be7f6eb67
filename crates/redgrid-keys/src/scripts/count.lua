-- count.lua: whether there is anything of objects.
--
-- KEYS     rows: the key of a name, and those of the types that have nothing under the plain name
-- ARGV[1]  EXISTS or TOUCH
-- ARGV[2]  how many keys a row has
-- Returns  for each row 1 or 0
--
-- Work: O(keys). Sent twice, it does the same.
local command, each = ARGV[1], tonumber(ARGV[2])
local there = {}
for at = 1, #KEYS, each do
  there[#there + 1] = redis.call(command, unpack(KEYS, at, at + each - 1)) > 0 and 1 or 0
end
return there
