-- set.lua: sets the number of permits of a semaphore. Appended to dedup.lua.
--
-- KEYS[2]  left       string; the number of available permits
-- KEYS[3]  leases     sorted set; the leased permits, scored by the ends of their leases in ms
-- ARGV[4]  publish, [5] channel   the command and channel that wake waiters; the message is ARGV[6]
-- ARGV[6]  permits    the number of permits: available and leased ones
-- ARGV[7]  overwrite  `1` to set the number even if one was set before; held permits stay held, so
--                     `left` may become negative
-- ARGV[8]  lifetime   of both keys, in milliseconds; empty for none
-- Returns  {1}  set
--          {0}  unchanged, because a number was set before; with `overwrite`, because it was the
--               same number
--
-- Work: O(expired leases), at most 1,000.
local stored = redis.call('GET', KEYS[2])
if stored and ARGV[7] ~= '1' then
  return answer({0})
end
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
local expired = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1000)
local left = ARGV[6] - redis.call('ZCARD', KEYS[3]) + #expired
local unchanged = stored and tonumber(stored) + #expired == left
redis.call('SET', KEYS[2], string.format('%.0f', left))
if ARGV[8] ~= '' then
  redis.call('PEXPIRE', KEYS[2], ARGV[8])
  redis.call('PEXPIRE', KEYS[3], ARGV[8])
else
  -- An earlier call may have set a lifetime for KEYS[3]. The key must not expire; otherwise, the
  -- permits whose leases it stores would never become available again.
  redis.call('PERSIST', KEYS[3])
end
redis.pcall(ARGV[4], ARGV[5], ARGV[6])
-- This is the last step, because it may leave the key empty. While the slot migrates, a key that
-- has become empty cannot be accessed any more.
if #expired > 0 then
  redis.call('ZREM', KEYS[3], unpack(expired))
end
return answer({unchanged and 0 or 1})
