-- lifetime.lua: delete a limiter, or set or remove its TTL. Appended to dedup.lua.
--
-- KEYS[2…7]         as in log.lua
-- ARGV[4]  what     a lifetime in milliseconds; `delete`; `persist`
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  channel  where waiting clients are notified
-- Returns  {done}   `1` if a rate was set and, for `persist`, had a lifetime; otherwise `0`
--
-- Work: O(1); memory is freed in the background. Sent twice, it acts once.
local done = 0
if ARGV[4] == 'delete' then
  done = redis.call('EXISTS', KEYS[2])
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
  redis.pcall(ARGV[5], ARGV[6], '0')
elseif ARGV[4] == 'persist' then
  done = redis.call('PERSIST', KEYS[2])
  redis.call('PERSIST', KEYS[3])
  redis.call('PERSIST', KEYS[5])
else
  done = redis.call('PEXPIRE', KEYS[2], ARGV[4])
  for n = 3, 7 do
    redis.call('PEXPIRE', KEYS[n], ARGV[4])
  end
end
return answer({tostring(done)})
