-- expire.lua: other lifetimes for keys of a map cache. Behind packed.lua.
--
-- ARGV[6]  1 where only those are to have them that have none
-- ARGV[7]  lifetime: see `ending`
-- ARGV[8]  idle time in milliseconds, 0 for none, = as before
-- ARGV[9…] keys, 500 at most
-- Returns  how many have them now
--
-- Work: O(keys * log n); takes out 100 that are over. Sent twice, they begin anew.
local no = refused()
if no then
  return no
end
purge(MOST)
local done, seen = 0, {}
for i = 9, #ARGV do
  local field = ARGV[i]
  local value, idle = live(field)
  if value and not seen[field] then
    seen[field] = true
    local before = redis.call('ZSCORE', KEYS[2], field) or nil
    if ARGV[6] ~= '1' or (not before and idle == 0) then
      local other = ARGV[8] == '=' and idle or tonumber(ARGV[8])
      lives(field, ending(ARGV[7], before), other)
      if other ~= idle then
        redis.call('HSET', KEYS[1], field, struct.pack('dLc0', other, #value, value))
      end
      done = done + 1
    end
  end
end
together()
return done
