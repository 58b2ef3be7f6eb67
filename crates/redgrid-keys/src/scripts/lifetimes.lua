-- lifetimes.lua: how long objects live. Behind rule.lua.
--
-- KEYS     rows: the key of a name, `{name}:config`, and the keys of types that may have nothing under the plain name
-- ARGV[1]  PTTL
-- ARGV[2]  how many keys a row has
-- Returns  for each row what PTTL says of the first key that exists, or -2
--
-- Work: O(keys), reads.
local command, each = ARGV[1], tonumber(ARGV[2])
local all = {}
for at = 1, #KEYS, each do
  local left = -2
  for i = at, at + each - 1 do
    if left == -2 and (i ~= at + 1 or is_filter(KEYS[at], KEYS[i])) then
      left = redis.call(command, KEYS[i])
    end
  end
  all[#all + 1] = left
end
return all
