-- get_and_set.lua: set or delete a number and tell what it was. Behind once.lua or plain.lua, and integers.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4]  new       empty deletes it
-- Returns  {was}
--
-- Work: O(1), writes one key.
local was = present() or '0'
if ARGV[4] == '' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[4])
end
return answer({was})
