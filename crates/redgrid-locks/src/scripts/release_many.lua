-- release_many.lua: give many locks back, and tell those who wait.
--
-- KEYS[i]       lock     hash; one field, the holder
-- ARGV[1]       publish  PUBLISH or SPUBLISH
-- ARGV[2i]      holder
-- ARGV[2i + 1]  channel  where its waiters listen
-- Returns  a list: 1 it was this holder's, and is free; 0 it was not; -1 it can not be written
--
-- Work: O(keys), writes each of ours. Sent twice, it answers 0 the second time.
local out = {}
for i, key in ipairs(KEYS) do
  local freed = redis.pcall('HDEL', key, ARGV[2 * i])
  if type(freed) == 'table' then
    freed = -1
  elseif freed == 1 then
    redis.pcall(ARGV[1], ARGV[2 * i + 1], '0')
  end
  out[i] = freed
end
return out
