-- phaser_arrive.lua: arrive at a phase, and register no more where that is asked for; or learn how far it is.
--
-- KEYS      the phaser, its parties, who has arrived: see phaser.lua
-- ARGV[1]   not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]   id         the party's seat
-- ARGV[3]   turn       of the seat
-- ARGV[4]   phase      the first at which this arrival may be; an earlier one is behind the party
-- ARGV[5]   lease      milliseconds
-- ARGV[6]   seen       the latest phase that the party saw: a failover may have lost that
-- ARGV[7]   leaves     1: it is registered no more
-- ARGV[8]   publish    PUBLISH or SPUBLISH
-- ARGV[9]   channel    where phases are told
-- ARGV[10]  arrived    the last phase at which the party has arrived, as far as it knows
-- ARGV[11]  run        in which it was registered; 0 where it has not heard of that: then its registration is taken back as if it had
--                      never been
-- Returns   {1, arrived, phase, ended, ms}  it has arrived at `arrived`; the present phase; 1 where the phaser has ended; the first
--                                            lease of a party ends in so long
--           {-1}                             too late: nothing was done
--           {-2}                             the party has left
--           {-4, phase}                      the phaser has ended before, or is another by now
--           {-5, phase}                      the party has arrived at the present phase before
--
-- Work: O(log parties). Sent twice, it arrives once: an arrival at this phase or a later one is there already.
if is_late(ARGV[1]) then
  return {-1}
end
local id, turn, wanted, lease, leaves = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7] == '1'
local known, number, mark = seat(id)
if known and (known > turn or known == turn and mark == 'l') then
  if known == turn and leaves then
    return {1, number, field('phase'), field('ended'), -1}
  end
  return {-2}
end
local is_here = known == turn
if not is_here then
  -- Of a former turn: what was registered is lost, or never was.
  redis.call('ZREM', k[3], id)
end
if ARGV[11] == '0' then
  redis.call('ZREM', k[2], id)
  redis.call('ZREM', k[3], id)
  if is_here then
    redis.call('HINCRBY', k[1], 'began', -1)
  end
  sit(id, ARGV[3], -1, 'l', now)
  settle(ARGV[8], ARGV[9])
  keep(0)
  return {1, -1, field('phase'), field('ended'), -1}
end
if not is_of(ARGV[11]) then
  return {-4, tonumber(ARGV[6])}
end
catch_up(tonumber(ARGV[6]), ARGV[8], ARGV[9])
local function arrived()
  return math.max(is_here and number or -1, math.min(tonumber(ARGV[10]), field('phase')))
end
number = arrived()
if is_here and number >= wanted and field('phase') > number then
  -- It has gone on with the others: only a copy, or a look.
  if not leaves then
    return {1, number, field('phase'), field('ended'), -1}
  end
elseif field('ended') == 1 then
  if number >= wanted then
    return {1, number, field('phase'), 1, -1}
  end
  return {-4, field('phase')}
else
  -- Who leaves does not delay the others, unless nobody is known.
  if not is_here and (not leaves or field('began') == 0) then
    forgotten(lease)
  end
  redis.call('ZADD', k[2], now + lease, id)
  settle(ARGV[8], ARGV[9])
  local phase = field('phase')
  number = arrived()
  if number < wanted and wanted > phase and not leaves then
    count(id, ARGV[3], number, lease)
    return {-5, phase}
  end
  if number < wanted then
    number = phase
  end
  count(id, ARGV[3], number, lease)
end
if leaves then
  redis.call('ZREM', k[2], id)
  redis.call('ZREM', k[3], id)
  sit(id, ARGV[3], number, 'l', now)
end
settle(ARGV[8], ARGV[9])
return {1, number, field('phase'), field('ended'), soonest()}
