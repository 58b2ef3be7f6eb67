-- fair_wake.lua: notify the first waiter of a fair lock that is free.
--
-- KEYS[1]  lock     hash; one field, the holder
-- KEYS[2]  queue    list of holders in their order, Redisson's
-- KEYS[3]  scores   sorted set, Redisson's
-- KEYS[4]  alive    sorted set, redgrid's
-- ARGV[1]  wait     milliseconds that each position adds to the score
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  prefix of the channel of a position; `:` and the holder follow
-- Returns   1  the lock is free, and the first waiter was notified
--           0  it is held, and has waiters
--          -1  it has no waiters
--
-- Work: O(1); O(n) for n positions if expired ones are removed. Sent twice, it notifies twice,
-- which is harmless.
local k = {KEYS[1], KEYS[2], KEYS[3], KEYS[4]}
if redis.call('EXISTS', k[2]) == 0 then
  return -1
end
if redis.call('EXISTS', k[1]) == 1 then
  return 0
end
-- A full server (maxmemory) refuses a write that needs memory only as the first write of a script.
-- ZREM needs none, so it comes first.
redis.call('ZREM', k[4], '')
grant_grace(k, 0)
if needs_cleanup(k) then
  update_queue(k, tonumber(ARGV[1]), {})
end
notify_head(k, ARGV[2], ARGV[3])
return redis.call('EXISTS', k[2]) == 1 and 1 or -1
