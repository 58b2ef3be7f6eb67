-- double_stay.lua: say that one is inside still.
--
-- KEYS     the barrier, who waits, who is inside: see double_barrier.lua
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  id         the seat
-- ARGV[3]  turn       of the seat
-- ARGV[4]  session    in which it entered
-- ARGV[5]  lease      milliseconds
-- ARGV[6]  publish    PUBLISH or SPUBLISH
-- ARGV[7]  channel    where changes are told
-- Returns  {1}   it counts, for a lease; also where a failover had lost it
--          {0}   the others have gone on without it
--          {-1}  too late: nothing was done
--
-- Work: O(log n). Sent twice, it says the same.
if is_late(ARGV[1]) then
  return {-1}
end
keep_on_full_server()
local session, till = tonumber(ARGV[4]), now + tonumber(ARGV[5])
local turn, _, mark = seat(ARGV[2])
if turn and (turn > tonumber(ARGV[3]) or turn == tonumber(ARGV[3]) and mark == 'l') then
  return {0}
end
-- The seat of a former turn: this one's entry is lost.
if turn ~= tonumber(ARGV[3]) then
  forgotten(tonumber(ARGV[5]))
end
catch_up(session, ARGV[6], ARGV[7])
if field('session') ~= session then
  return {0}
end
redis.call('ZREM', k[2], ARGV[2])
redis.call('ZADD', k[3], till, ARGV[2])
sit(ARGV[2], ARGV[3], session, 'i', till)
keep(tonumber(ARGV[5]))
return {1}
