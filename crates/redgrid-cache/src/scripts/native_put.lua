-- native_put.lua: values for keys of a hash whose fields have lifetimes.
--
-- KEYS[1]  map, a hash
-- ARGV[1]  any, absent, present or equal: what must be so of a key
-- ARGV[2]  1 where it is to be told what they had
-- ARGV[3]  lifetime: milliseconds from now, @ and milliseconds since 1970, = as before, 0 for none
-- ARGV[4…] a key and its value for each, 500 at most; of `equal` one, and what is expected
-- Returns  for each {0 nothing is done, 1 it is new, 2 it has another value now; what it had, or nothing}
--
-- Work: O(keys). Not to be sent twice: the second would be told of the first. A server that knows no lifetimes of fields refuses before anything is
-- written.
local done = {}
local step = ARGV[1] == 'equal' and 3 or 2
if ARGV[3] ~= '0' then
  redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 1, ARGV[4])
end
for i = 4, #ARGV, step do
  local field, value = ARGV[i], ARGV[i + 1]
  local was = redis.call('HGET', KEYS[1], field)
  local told = ARGV[2] == '1' and was or false
  local fits = ARGV[1] == 'any' or (ARGV[1] == 'absent' and not was) or (ARGV[1] == 'present' and was)
    or (ARGV[1] == 'equal' and was == ARGV[i + 2])
  if fits then
    local ends = nil
    if ARGV[3] == '=' and was then
      ends = (redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 1, field) or {-1})[1]
    elseif string.sub(ARGV[3], 1, 1) == '@' then
      ends = string.sub(ARGV[3], 2)
    end
    redis.call('HSET', KEYS[1], field, value)
    if ends and tonumber(ends) >= 0 then
      redis.call('HPEXPIREAT', KEYS[1], ends, 'FIELDS', 1, field)
    elseif ARGV[3] ~= '0' and ARGV[3] ~= '=' then
      redis.call('HPEXPIRE', KEYS[1], ARGV[3], 'FIELDS', 1, field)
    end
    done[#done + 1] = {was and 2 or 1, told}
  else
    done[#done + 1] = {0, told}
  end
end
return done
