-- phaser_keepalive.lua: renew the lease of a party.
--
-- KEYS     the phaser, its parties, arrived parties: see phaser.lua
-- ARGV[1]  not after   microseconds since 1970 by this server's clock; later than that, nothing is
--                      done
-- ARGV[2]  id          of the party
-- ARGV[3]  generation  of the party
-- ARGV[4]  arrived     phase of its last arrival
-- ARGV[5]  lease       milliseconds
-- ARGV[6]  seen        the latest phase that it saw; a failover may have lost it
-- ARGV[7]  publish     PUBLISH or SPUBLISH
-- ARGV[8]  channel     for phases
-- ARGV[9]  run         in which it was registered
-- Returns  {1}   it counts for a lease; if a failover had lost it or its lease had expired, it is
--                restored
--          {0}   it has left, the phaser has ended, or a new run has begun
--          {-1}  too late: nothing was done
--
-- Work: O(log parties). Sent twice, it has the same effect.
if is_late(ARGV[1]) then
  return {-1}
end
allow_writes_on_full_server()
local generation, value, state = participant(ARGV[2])
local is_known = generation == tonumber(ARGV[3])
if generation and generation > tonumber(ARGV[3]) or is_known and state == 'l' or not is_current_run(ARGV[9]) or field('ended') == 1 then
  return {0}
end
if not is_known then
  redis.call('ZREM', k[3], ARGV[2])
  start_grace(tonumber(ARGV[5]))
end
restore_phase(tonumber(ARGV[6]), ARGV[7], ARGV[8])
local arrived = math.min(math.max(tonumber(ARGV[4]), is_known and value or -1), field('phase'))
register(ARGV[2], ARGV[3], arrived, tonumber(ARGV[5]))
update(ARGV[7], ARGV[8])
return {1}
