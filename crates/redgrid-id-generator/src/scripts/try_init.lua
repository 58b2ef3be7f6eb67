-- try_init.lua: sets the first id and the block size, in the format of Redisson. Appended to
-- dedup.lua.
--
-- KEYS[2]  next        string; the first id of the next block
-- KEYS[3]  allocation  string; the number of ids of a block
-- ARGV[4]  start       whole number
-- ARGV[5]  size        whole number, 1 or more
-- Returns  {set}       `1` if the allocation did not exist, otherwise `0`. Existing values of both
--                      keys are kept
--
-- Work: O(1), writes at most two keys.
local has_set_start = redis.call('SET', KEYS[2], ARGV[4], 'NX')
local set = redis.pcall('SET', KEYS[3], ARGV[5], 'NX')
if type(set) == 'table' and set.err then
  -- If the second write is refused, undo the first: otherwise blocks of another size would start
  -- there.
  if has_set_start then
    redis.call('DEL', KEYS[2])
  end
  return set
end
return answer({set and 1 or 0})
