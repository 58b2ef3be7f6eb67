-- lifetimes.lua: reads the TTLs of objects. Appended to ownership.lua.
--
-- KEYS     rows: the key of a name, `{name}:config`, and the keys of object types that may have no
--          key with the plain name
-- ARGV[1]  PTTL
-- ARGV[2]  the number of keys of a row
-- Returns  for each row the reply of PTTL for the first key that exists, or -2
--
-- Work: O(keys), reads.
local command, width = ARGV[1], tonumber(ARGV[2])
local ttls = {}
for at = 1, #KEYS, width do
  local ttl = -2
  for i = at, at + width - 1 do
    if ttl == -2 and (i ~= at + 1 or is_filter(KEYS[at], KEYS[i])) then
      ttl = redis.call(command, KEYS[i])
    end
  end
  ttls[#ttls + 1] = ttl
end
return ttls
