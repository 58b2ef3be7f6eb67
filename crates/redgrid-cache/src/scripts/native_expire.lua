-- native_expire.lua: other lifetimes for keys of a hash.
--
-- KEYS[1]  map, a hash
-- ARGV[1]  1 where only those are to have them that have none
-- ARGV[2]  lifetime: milliseconds from now, @ and milliseconds since 1970, 0 for none
-- ARGV[3…] keys, 500 at most
-- Returns  how many have them now
--
-- Work: O(keys). Sent twice, they begin anew.
local done, seen = 0, {}
for i = 3, #ARGV do
  local ends = (redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 1, ARGV[i]) or {-2})[1]
  if ends ~= -2 and not seen[ARGV[i]] and (ARGV[1] ~= '1' or ends == -1) then
    seen[ARGV[i]] = true
    if ARGV[2] == '0' then
      redis.call('HPERSIST', KEYS[1], 'FIELDS', 1, ARGV[i])
    elseif string.sub(ARGV[2], 1, 1) == '@' then
      redis.call('HPEXPIREAT', KEYS[1], string.sub(ARGV[2], 2), 'FIELDS', 1, ARGV[i])
    else
      redis.call('HPEXPIRE', KEYS[1], ARGV[2], 'FIELDS', 1, ARGV[i])
    end
    done = done + 1
  end
end
return done
