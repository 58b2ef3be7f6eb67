-- double_leave.lua: leave, from outside or inside, and learn whether all who were inside have left.
--
-- KEYS     the barrier, who waits, who is inside: see double_barrier.lua
-- ARGV[1]  id       the seat
-- ARGV[2]  turn     of the seat
-- ARGV[3]  session  in which it was inside; 0 for who only waited
-- ARGV[4]  lease    milliseconds
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  channel  where changes are told
-- Returns  {1}        all have left
--          {0, ms}    others are inside; the first of their leases ends in so long
--
-- Work: O(log n), and O(parties) where the next may enter. Sent twice, it leaves once.
local session = tonumber(ARGV[3])
local turn, _, mark = seat(ARGV[1])
if not turn or turn <= tonumber(ARGV[2]) then
  if not turn and session > 0 then
    forgotten(tonumber(ARGV[4]))
  end
  catch_up(session, ARGV[5], ARGV[6])
  redis.call('ZREM', k[2], ARGV[1])
  if redis.call('ZREM', k[3], ARGV[1]) == 1 and redis.call('ZCARD', k[3]) == 0 then
    redis.call(ARGV[5], ARGV[6], session)
  end
  sit(ARGV[1], ARGV[2], session, 'l', now)
end
settle(ARGV[5], ARGV[6])
keep(0)
if field('session') ~= session or nobody_is_inside() then
  return {1}
end
return {0, soonest()}
