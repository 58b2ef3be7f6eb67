-- rw_release_many.lua: release several read-write locks, and notify the waiters.
--
-- KEYS[2i - 1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2i]      timeout  string of a reader; for a writer, which has none, the lock again
-- ARGV[1]       publish  PUBLISH or SPUBLISH
-- ARGV[2i]      holder
-- ARGV[2i + 1]  channel  where its waiters subscribe
-- Returns  a list: 1 it was this holder's; 0 it was not; -1 the key cannot be written
--
-- Work: O(keys), writes each that is held. Sent twice, it returns 0 the second time.
local out = {}
for i = 1, #KEYS / 2 do
  local lock, timeout, holder = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i]
  local released = redis.pcall('HDEL', lock, holder)
  if timeout ~= lock then
    redis.pcall('DEL', timeout)
  end
  if type(released) == 'table' then
    released = -1
  elseif released == 1 then
    if redis.call('HLEN', lock) <= 1 then
      redis.pcall('DEL', lock)
    elseif timeout == lock then
      redis.pcall('HSET', lock, 'mode', 'read')
    end
    redis.pcall(ARGV[1], ARGV[2 * i + 1], timeout == lock and '1' or '0')
  end
  out[i] = released
end
return out
