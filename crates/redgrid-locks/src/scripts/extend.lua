-- extend.lua: set the lease of a held lock, which may be shorter than before.
--
-- KEYS[1]  lock       hash; one field, the holder
-- ARGV[1]  holder
-- ARGV[2]  lease      milliseconds from now
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- Returns  {1, time}  done
--          {0, time}  not held by this holder
--          {2, time}  too late
--
-- Work: O(1), writes one key. Never sent twice: a late retransmission could shorten a lease that
-- was extended since.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time}
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return {0, time}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, time}
