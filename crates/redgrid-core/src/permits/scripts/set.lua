-- set.lua: say how many permits a semaphore has. Behind once.lua.
--
-- KEYS[2]  left      string; how many permits are left
-- KEYS[3]  leases    sorted set; each leased permit by the millisecond of its end
-- ARGV[4]  publish, [5] channel   how those who wait are told
-- ARGV[6]  permits   how many there are
-- ARGV[7]  anew      `1`: also where some were set before; those that are taken stay taken, so fewer than none may be left
-- ARGV[8]  lifetime  of the semaphore, its leases too, in milliseconds; empty for none
-- Returns  {1}  set
--          {0}  it is as it was: there were some
--
-- Work: O(leases that ended), at most 1,000.
local said = redis.call('GET', KEYS[2])
if said and ARGV[7] ~= '1' then
  return answer({0})
end
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
local ended = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1000)
local left = ARGV[6] - redis.call('ZCARD', KEYS[3]) + #ended
local same = said and tonumber(said) + #ended == left
redis.call('SET', KEYS[2], string.format('%.0f', left))
if ARGV[8] ~= '' then
  redis.call('PEXPIRE', KEYS[2], ARGV[8])
  redis.call('PEXPIRE', KEYS[3], ARGV[8])
else
  -- The lifetime of the number before: what is taken would be gone with it, and come back to nobody.
  redis.call('PERSIST', KEYS[3])
end
redis.pcall(ARGV[4], ARGV[5], ARGV[6])
-- In the end: while the slot moves, a key that is emptied can not be touched any more.
if #ended > 0 then
  redis.call('ZREM', KEYS[3], unpack(ended))
end
return answer({same and 0 or 1})
