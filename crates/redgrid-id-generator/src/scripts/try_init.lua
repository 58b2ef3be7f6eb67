-- try_init.lua: say where ids begin and how many a block has, as Redisson does. Behind once.lua.
--
-- KEYS[2]  next        string; the first id of the next block
-- KEYS[3]  allocation  string; how many ids a block has
-- ARGV[4]  start       whole number
-- ARGV[5]  size        whole number, 1 or more
-- Returns  {set}       `1` where the allocation was not there before, else `0`. What is there of either stays as it is.
--
-- Work: O(1), writes at most two keys.
local begun = redis.call('SET', KEYS[2], ARGV[4], 'NX')
local set = redis.pcall('SET', KEYS[3], ARGV[5], 'NX')
if type(set) == 'table' and set.err then
  -- Who may not write the one has not written the other: blocks of another size would begin there.
  if begun then
    redis.call('DEL', KEYS[2])
  end
  return set
end
return answer({set and 1 or 0})
