-- phaser_register.lua: register parties, all of them at once. They have not arrived at the present phase.
--
-- KEYS     the phaser, its parties, who has arrived: see phaser.lua
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  lease      milliseconds, until which each counts without another word
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    where phases are told
-- ARGV[5…] pairs      of a seat and its turn
-- Returns  {1, phase, run}  registered, in this run
--          {-1}             too late: nothing was done
--          {-4, phase}      the phaser has ended
--
-- Work: O(parties). Sent twice, each is registered once.
if is_late(ARGV[1]) then
  return {-1}
end
settle(ARGV[3], ARGV[4])
if field('ended') == 1 then
  return {-4, field('phase')}
end
local phase, run = field('phase'), run_here()
for i = 5, #ARGV, 2 do
  local turn = seat(ARGV[i])
  if not turn or turn < tonumber(ARGV[i + 1]) then
    redis.call('ZREM', k[3], ARGV[i])
    redis.call('HINCRBY', k[1], 'began', 1)
    count(ARGV[i], ARGV[i + 1], phase - 1, tonumber(ARGV[2]))
  end
end
return {1, phase, run}
