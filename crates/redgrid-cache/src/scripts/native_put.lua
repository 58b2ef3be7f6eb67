-- native_put.lua: values for keys of a hash whose fields have lifetimes.
--
-- KEYS[1]  map, a hash
-- ARGV[1]  any, absent, present or equal: what must be so of a key
-- ARGV[2]  1 where it is to be told what they had
-- ARGV[3]  lifetime: milliseconds from now, @ and milliseconds since 1970, = as before, 0 for none
-- ARGV[4…] a key and its value for each, 500 at most; of `equal` one, and what is expected
-- Returns  for each {0 nothing is done, 1 it is new, 2 it has another value now; what it had, or nothing}
--
-- Work: O(keys). Not to be sent twice: the second would be told of the first. A server that knows no lifetimes of fields, and a user who may give none,
-- is told before anything is written; `=` is `0` on such a server: nothing has a lifetime there.
local done = {}
local step = ARGV[1] == 'equal' and 3 or 2
local said = ARGV[3]
if said ~= '0' then
  local known = redis.pcall('HPEXPIRETIME', KEYS[1], 'FIELDS', 1, ARGV[4])
  local wrong = type(known) == 'table' and known.err
  if wrong and said == '=' and string.find(wrong, 'nknown') then
    said = '0'
  elseif wrong then
    return known
  elseif not redis.acl_check_cmd('HPEXPIREAT', KEYS[1], 1, 'FIELDS', 1, 'f') or not redis.acl_check_cmd('HPEXPIRE', KEYS[1], 1, 'FIELDS', 1, 'f') then
    return redis.error_reply('NOPERM this user may give fields no lifetimes, by HPEXPIRE and HPEXPIREAT; nothing is changed')
  end
end
for i = 4, #ARGV, step do
  local field, value = ARGV[i], ARGV[i + 1]
  local was = redis.call('HGET', KEYS[1], field)
  local told = ARGV[2] == '1' and was or false
  local fits = ARGV[1] == 'any' or (ARGV[1] == 'absent' and not was) or (ARGV[1] == 'present' and was)
    or (ARGV[1] == 'equal' and was == ARGV[i + 2])
  if fits then
    local ends = nil
    if said == '=' and was then
      ends = (redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 1, field) or {-1})[1]
    elseif string.sub(said, 1, 1) == '@' then
      ends = string.sub(said, 2)
    end
    redis.call('HSET', KEYS[1], field, value)
    if ends and tonumber(ends) >= 0 then
      redis.call('HPEXPIREAT', KEYS[1], ends, 'FIELDS', 1, field)
    elseif said ~= '0' and said ~= '=' then
      redis.call('HPEXPIRE', KEYS[1], said, 'FIELDS', 1, field)
    end
    done[#done + 1] = {was and 2 or 1, told}
  else
    done[#done + 1] = {0, told}
  end
end
return done
