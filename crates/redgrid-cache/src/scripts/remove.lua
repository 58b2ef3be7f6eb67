-- remove.lua: no values for keys of a map cache. Behind packed.lua.
--
-- ARGV[6]  1 where it is to be told what they had, 0 not, equal for one key that must have a value
-- ARGV[7…] keys, 500 at most; of `equal` one, and what is expected
-- Returns  for each {1 it was there and is not any more, or 0; what it had, or nothing}
--
-- Work: O(keys * log n); takes out 100 that are over. Not to be sent twice: the second would find nothing.
local no = refused()
if no then
  return no
end
purge(MOST)
local done = {}
for i = 7, ARGV[6] == 'equal' and 7 or #ARGV do
  local field = ARGV[i]
  local was, _, over = live(field)
  if over then
    drop(field)
    tell(EXPIRED, field, over)
  end
  local goes = was and (ARGV[6] ~= 'equal' or was == ARGV[8])
  if goes then
    drop(field)
    tell(REMOVED, field, was)
  end
  if KEYS[6] and (goes or not was) then
    redis.call('DEL', KEYS[5 + i - 6])
  end
  done[#done + 1] = {goes and 1 or 0, ARGV[6] == '1' and was or false}
end
together()
return done
