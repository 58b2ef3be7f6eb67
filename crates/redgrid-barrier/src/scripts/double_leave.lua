-- double_leave.lua: leave from outside or inside, and return whether all participants have left.
--
-- KEYS     the barrier, waiters, participants inside: see double_barrier.lua
-- ARGV[1]  id            of the participant
-- ARGV[2]  generation    of the participant
-- ARGV[3]  session       in which it was inside; 0 if it only waited
-- ARGV[4]  lease         milliseconds
-- ARGV[5]  publish       PUBLISH or SPUBLISH
-- ARGV[6]  channel       for notifications of changes
-- ARGV[7]  only outside  1: leaves only if the participant is outside; 0: leaves in any case
-- Returns  {1}           all have left
--          {0, ms}       others are inside; the first of their leases ends after ms
--          {2, session}  the participant is inside, and `only outside` is 1
--
-- Work: O(log n), and O(parties) if the next session begins. Sent twice, it leaves once.
local session = tonumber(ARGV[3])
local generation, entered_in, state = participant(ARGV[1])
if ARGV[7] == '1' and generation == tonumber(ARGV[2]) and state == 'i' then
  return {2, entered_in}
end
if not generation or generation <= tonumber(ARGV[2]) then
  if generation ~= tonumber(ARGV[2]) and session > 0 then
    start_grace(tonumber(ARGV[4]))
  end
  restore_session(session, ARGV[5], ARGV[6])
  redis.call('ZREM', k[2], ARGV[1])
  if redis.call('ZREM', k[3], ARGV[1]) == 1 and redis.call('ZCARD', k[3]) == 0 then
    redis.pcall(ARGV[5], ARGV[6], session)
  end
  set_participant(ARGV[1], ARGV[2], session, 'l', now)
end
update(ARGV[5], ARGV[6])
extend_ttl(0)
if field('session') ~= session or is_empty() then
  return {1}
end
return {0, next_change()}
