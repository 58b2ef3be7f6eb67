-- count.lua: whether there is anything of objects. Behind rule.lua.
--
-- KEYS     rows: the key of a name, `{name}:config`, and the keys of types that may have nothing under the plain name
-- ARGV[1]  EXISTS or TOUCH
-- ARGV[2]  how many keys a row has
-- Returns  for each row 1 or 0
--
-- Work: O(keys). Sent twice, it does the same.
local command, each = ARGV[1], tonumber(ARGV[2])
local there = {}
for at = 1, #KEYS, each do
  local found = redis.call(command, KEYS[at], unpack(KEYS, at + 2, at + each - 1))
  if is_filter(KEYS[at], KEYS[at + 1]) then
    found = found + redis.call(command, KEYS[at + 1])
  end
  there[#there + 1] = found > 0 and 1 or 0
end
return there
