-- phaser_stay.lua: say that a party is there still.
--
-- KEYS     the phaser, its parties, who has arrived: see phaser.lua
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  id         the party's seat
-- ARGV[3]  turn       of the seat
-- ARGV[4]  arrived    the last phase at which it has arrived
-- ARGV[5]  lease      milliseconds
-- ARGV[6]  seen       the latest phase that it saw
-- ARGV[7]  publish    PUBLISH or SPUBLISH
-- ARGV[8]  channel    where phases are told
-- ARGV[9]  run        in which it was registered
-- Returns  {1}   it counts, for a lease; also where a failover had lost it, or its lease had ended
--          {0}   it has left, or the phaser has ended, or is another by now
--          {-1}  too late: nothing was done
--
-- Work: O(log parties). Sent twice, it says the same.
if is_late(ARGV[1]) then
  return {-1}
end
keep_on_full_server()
local turn, number, mark = seat(ARGV[2])
local is_here = turn == tonumber(ARGV[3])
if turn and turn > tonumber(ARGV[3]) or is_here and mark == 'l' or not is_of(ARGV[9]) or field('ended') == 1 then
  return {0}
end
if not is_here then
  redis.call('ZREM', k[3], ARGV[2])
  forgotten(tonumber(ARGV[5]))
end
catch_up(tonumber(ARGV[6]), ARGV[7], ARGV[8])
local arrived = math.min(math.max(tonumber(ARGV[4]), is_here and number or -1), field('phase'))
count(ARGV[2], ARGV[3], arrived, tonumber(ARGV[5]))
settle(ARGV[7], ARGV[8])
return {1}
