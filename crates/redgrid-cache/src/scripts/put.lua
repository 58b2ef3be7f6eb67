-- put.lua: values for keys of a map cache. Behind packed.lua.
--
-- ARGV[6]  any, absent, present or equal: what must be so of a key
-- ARGV[7]  1 where it is to be told what they had
-- ARGV[8]  lifetime: see `ending`
-- ARGV[9]  idle time in milliseconds, 0 for none, = as before
-- ARGV[10…] a key and its value for each, 500 at most; of `equal` one, and what is expected
-- Returns  for each {0 nothing is done, 1 it is new, 2 it has another value now; what it had, or nothing}
--
-- Work: O(keys * log n); takes out 100 that are over, and where there are more than the limit 100 and one for each key that is new. Not to be sent twice: the
-- second would be told of the first.
local no = refused()
if no then
  return no
end
purge(MOST)
local done = {}
local step = ARGV[6] == 'equal' and 3 or 2
for i = 10, #ARGV, step do
  local field, value = ARGV[i], ARGV[i + 1]
  local was, had_idle, over = live(field)
  local told = ARGV[7] == '1' and was or false
  local fits = ARGV[6] == 'any' or (ARGV[6] == 'absent' and not was) or (ARGV[6] == 'present' and was)
    or (ARGV[6] == 'equal' and was == ARGV[i + 2])
  if fits then
    local before = was and redis.call('ZSCORE', KEYS[2], field) or nil
    local idle = ARGV[9] == '=' and (had_idle or 0) or tonumber(ARGV[9])
    redis.call('HSET', KEYS[1], field, struct.pack('dLc0', idle, #value, value))
    lives(field, ending(ARGV[8], before or nil), idle)
    if KEYS[6] then
      redis.call('DEL', KEYS[5 + (i - 10) / step + 1])
    end
    if over then
      redis.call('ZREM', KEYS[4], field)
      tell(EXPIRED, field, over)
    end
    if was then
      tell(UPDATED, field, value, was)
    else
      tell(CREATED, field, value)
    end
    if limit > 0 then
      used(field, 0)
      budget = budget + (was and 0 or 1)
      evict(field)
    end
    done[#done + 1] = {was and 2 or 1, told}
  else
    if was and ARGV[6] == 'absent' then
      used(field, had_idle)
    end
    done[#done + 1] = {0, told}
  end
end
together()
return done
