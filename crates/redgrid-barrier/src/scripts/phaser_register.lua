-- phaser_register.lua: register parties, all in one call. They have not arrived at the current
-- phase.
--
-- KEYS     the phaser, its parties, arrived parties: see phaser.lua
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is
--                     done
-- ARGV[2]  lease      milliseconds; without renewal, each party expires then
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    for phases
-- ARGV[5…] pairs      a party's id and generation
-- Returns  {1, phase, run}  registered in this run
--          {-1}             too late: nothing was done
--          {-4, phase}      the phaser has ended
--
-- Work: O(parties). Sent twice, each party is registered once.
if is_late(ARGV[1]) then
  return {-1}
end
update(ARGV[3], ARGV[4])
if field('ended') == 1 then
  return {-4, field('phase')}
end
local phase, run = field('phase'), ensure_run()
for i = 5, #ARGV, 2 do
  local generation = participant(ARGV[i])
  if not generation or generation < tonumber(ARGV[i + 1]) then
    redis.call('ZREM', k[3], ARGV[i])
    redis.call('HINCRBY', k[1], 'began', 1)
    register(ARGV[i], ARGV[i + 1], phase - 1, tonumber(ARGV[2]))
  end
end
return {1, phase, run}
