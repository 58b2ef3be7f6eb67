-- phaser_arrive.lua: arrive at a phase, deregister if requested, or return the current phase.
--
-- KEYS      the phaser, its parties, arrived parties: see phaser.lua
-- ARGV[1]   not after   microseconds since 1970 by this server's clock; later than that, nothing is
--                       done
-- ARGV[2]   id          of the party
-- ARGV[3]   generation  of the party
-- ARGV[4]   wanted      the first phase at which this may arrive; the party has passed earlier ones
-- ARGV[5]   lease       milliseconds
-- ARGV[6]   seen        the latest phase that the party saw: a failover may have lost it
-- ARGV[7]   deregister  1: the party leaves
-- ARGV[8]   publish     PUBLISH or SPUBLISH
-- ARGV[9]   channel     for phases
-- ARGV[10]  arrived     phase of its last arrival, according to its client
-- ARGV[11]  run         in which it was registered; 0 if the registration is not confirmed: then
--                       it is undone completely
-- Returns   {1, arrived, phase, ended, ms}  it has arrived at `arrived`; the current phase; 1 if
--                                           the phaser has ended; the first lease of a party ends
--                                           after ms
--           {-1}                            too late: nothing was done
--           {-2}                            the party has left
--           {-4, phase}                     the phaser ended before, or a new run has begun
--           {-5, phase}                     the party has already arrived at the current phase
--
-- Work: O(log parties). Sent twice, it arrives once: an arrival at this phase or a later one is
-- already stored.
if is_late(ARGV[1]) then
  return {-1}
end
local id, own_generation, wanted, lease, deregister = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7] == '1'
local generation, arrived, state = participant(id)
if generation and (generation > own_generation or generation == own_generation and state == 'l') then
  if generation == own_generation and deregister then
    return {1, arrived, field('phase'), field('ended'), -1}
  end
  return {-2}
end
local is_known = generation == own_generation
if not is_known then
  -- At most an earlier generation is stored: the registration is lost, or was never executed.
  redis.call('ZREM', k[3], id)
end
if ARGV[11] == '0' then
  redis.call('ZREM', k[2], id)
  redis.call('ZREM', k[3], id)
  if is_known then
    redis.call('HINCRBY', k[1], 'began', -1)
  end
  set_participant(id, ARGV[3], -1, 'l', now)
  update(ARGV[8], ARGV[9])
  extend_ttl(0)
  return {1, -1, field('phase'), field('ended'), -1}
end
if not is_current_run(ARGV[11]) then
  return {-4, tonumber(ARGV[6])}
end
restore_phase(tonumber(ARGV[6]), ARGV[8], ARGV[9])
local function last_arrival()
  return math.max(is_known and arrived or -1, math.min(tonumber(ARGV[10]), field('phase')))
end
arrived = last_arrival()
if is_known and arrived >= wanted and field('phase') > arrived then
  -- The phase has ended with this arrival: this is a retransmission or a poll.
  if not deregister then
    return {1, arrived, field('phase'), field('ended'), -1}
  end
elseif field('ended') == 1 then
  if arrived >= wanted then
    return {1, arrived, field('phase'), 1, -1}
  end
  return {-4, field('phase')}
else
  -- A party that deregisters does not delay the others, unless no registration is stored.
  if not is_known and (not deregister or field('began') == 0) then
    start_grace(lease)
  end
  redis.call('ZADD', k[2], now + lease, id)
  update(ARGV[8], ARGV[9])
  local phase = field('phase')
  arrived = last_arrival()
  if arrived < wanted and wanted > phase and not deregister then
    register(id, ARGV[3], arrived, lease)
    return {-5, phase}
  end
  if arrived < wanted then
    arrived = phase
  end
  register(id, ARGV[3], arrived, lease)
end
if deregister then
  redis.call('ZREM', k[2], id)
  redis.call('ZREM', k[3], id)
  set_participant(id, ARGV[3], arrived, 'l', now)
end
update(ARGV[8], ARGV[9])
return {1, arrived, field('phase'), field('ended'), next_change()}
