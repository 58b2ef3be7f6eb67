-- double_keepalive.lua: renew the lease of a participant inside a double barrier.
--
-- KEYS     the barrier, waiters, participants inside: see double_barrier.lua
-- ARGV[1]  not after   microseconds since 1970 by this server's clock; later than that, nothing is
--                      done
-- ARGV[2]  id          of the participant
-- ARGV[3]  generation  of the participant
-- ARGV[4]  session     in which it entered; a failover may have lost it
-- ARGV[5]  lease       milliseconds
-- ARGV[6]  publish     PUBLISH or SPUBLISH
-- ARGV[7]  channel     for notifications of changes
-- Returns  {1}   it counts for a lease; if a failover had lost it, it is restored
--          {0}   the others have proceeded without it
--          {-1}  too late: nothing was done
--
-- Work: O(log n). Sent twice, it has the same effect.
if is_late(ARGV[1]) then
  return {-1}
end
allow_writes_on_full_server()
local session, until_ms = tonumber(ARGV[4]), now + tonumber(ARGV[5])
local generation, _, state = participant(ARGV[2])
if generation and (generation > tonumber(ARGV[3]) or generation == tonumber(ARGV[3]) and state == 'l') then
  return {0}
end
-- At most an earlier generation is stored: the entry of this one is lost.
if generation ~= tonumber(ARGV[3]) then
  start_grace(tonumber(ARGV[5]))
end
restore_session(session, ARGV[6], ARGV[7])
if field('session') ~= session then
  return {0}
end
redis.call('ZREM', k[2], ARGV[2])
redis.call('ZADD', k[3], until_ms, ARGV[2])
set_participant(ARGV[2], ARGV[3], session, 'i', until_ms)
extend_ttl(tonumber(ARGV[5]))
return {1}
