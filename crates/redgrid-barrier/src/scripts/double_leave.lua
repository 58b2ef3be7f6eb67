-- double_leave.lua: leave, from outside or inside, and learn whether all who were inside have left.
--
-- KEYS     the barrier, who waits, who is inside: see double_barrier.lua
-- ARGV[1]  id       the seat
-- ARGV[2]  turn     of the seat
-- ARGV[3]  session  in which it was inside; 0 for who only waited
-- ARGV[4]  lease    milliseconds
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  channel  where changes are told
-- ARGV[7]  outside  1: only who is outside leaves; 0: whoever it is
-- Returns  {1}           all have left
--          {0, ms}       others are inside; the first of their leases ends in so long
--          {2, session}  only who is outside was to leave, and it is inside
--
-- Work: O(log n), and O(parties) where the next may enter. Sent twice, it leaves once.
local session = tonumber(ARGV[3])
local turn, came, mark = seat(ARGV[1])
if ARGV[7] == '1' and turn == tonumber(ARGV[2]) and mark == 'i' then
  return {2, came}
end
if not turn or turn <= tonumber(ARGV[2]) then
  if turn ~= tonumber(ARGV[2]) and session > 0 then
    forgotten(tonumber(ARGV[4]))
  end
  catch_up(session, ARGV[5], ARGV[6])
  redis.call('ZREM', k[2], ARGV[1])
  if redis.call('ZREM', k[3], ARGV[1]) == 1 and redis.call('ZCARD', k[3]) == 0 then
    redis.pcall(ARGV[5], ARGV[6], session)
  end
  sit(ARGV[1], ARGV[2], session, 'l', now)
end
settle(ARGV[5], ARGV[6])
keep(0)
if field('session') ~= session or nobody_is_inside() then
  return {1}
end
return {0, soonest()}
