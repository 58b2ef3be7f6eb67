-- native_expire.lua: sets the lifetimes of fields of a hash.
--
-- KEYS[1]  map, a hash
-- ARGV[1]  1 to change only fields that have no lifetime
-- ARGV[2]  lifetime: milliseconds from now, @ and milliseconds since 1970, 0 for none
-- ARGV[3…] keys, 500 at most
-- Returns  the number of changed keys
--
-- Work: O(keys). Sent twice, the times start again.
local changed, seen = 0, {}
for i = 3, #ARGV do
  local expiry = (redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 1, ARGV[i]) or {-2})[1]
  if expiry ~= -2 and not seen[ARGV[i]] and (ARGV[1] ~= '1' or expiry == -1) then
    seen[ARGV[i]] = true
    if ARGV[2] == '0' then
      redis.call('HPERSIST', KEYS[1], 'FIELDS', 1, ARGV[i])
    elseif string.sub(ARGV[2], 1, 1) == '@' then
      redis.call('HPEXPIREAT', KEYS[1], string.sub(ARGV[2], 2), 'FIELDS', 1, ARGV[i])
    else
      redis.call('HPEXPIRE', KEYS[1], ARGV[2], 'FIELDS', 1, ARGV[i])
    end
    changed = changed + 1
  end
end
return changed
