-- rw_end_many.lua: leave many read-write locks, and tell those who wait.
--
-- KEYS[2i - 1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2i]      level    string of a reader; a writer has none, and names its lock again
-- ARGV[1]       publish  PUBLISH or SPUBLISH
-- ARGV[2i]      holder
-- ARGV[2i + 1]  channel  where its waiters listen
-- Returns  a list: 1 it was this holder's; 0 it was not; -1 it can not be written
--
-- Work: O(keys), writes each of ours. Sent twice, it answers 0 the second time.
local out = {}
for i = 1, #KEYS / 2 do
  local lock, level, holder = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i]
  local was = redis.pcall('HDEL', lock, holder)
  if level ~= lock then
    redis.pcall('DEL', level)
  end
  if type(was) == 'table' then
    was = -1
  elseif was == 1 then
    if redis.call('HLEN', lock) <= 1 then
      redis.pcall('DEL', lock)
    elseif level == lock then
      redis.pcall('HSET', lock, 'mode', 'read')
    end
    redis.pcall(ARGV[1], ARGV[2 * i + 1], level == lock and '1' or '0')
  end
  out[i] = was
end
return out
