-- rw_extend.lua: set the lease of one holder of a read-write lock, which may be shorter than
-- before.
--
-- KEYS[1]  lock       hash: `mode`, and a field for each holder
-- KEYS[2]  timeout    string of a reader; for a writer, which has none, the lock again
-- ARGV[1]  holder
-- ARGV[2]  lease      milliseconds from now
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- Returns  {1, time}  done. With other holders, the lock itself lasts at least as long as before
--          {0, time}  not held by this holder
--          {2, time}  too late
--
-- Work: O(1), writes two keys. Never sent twice: a late retransmission could shorten a lease that
-- was extended since.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time}
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return {0, time}
end
-- A full server (maxmemory) refuses SET but not PEXPIRE: SET is for a timeout key that is missing.
if KEYS[2] ~= KEYS[1] and redis.call('PEXPIRE', KEYS[2], ARGV[2]) == 0 then
  redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
end
if redis.call('HLEN', KEYS[1]) <= 2 or redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, time}
