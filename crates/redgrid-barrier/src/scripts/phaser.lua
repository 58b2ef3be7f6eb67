-- phaser.lua: what the scripts of a phaser have in common, behind seats.lua.
--
-- `k[1]` is its hash: `phase`, from 0; `ended` is 1 when it has ended; `began` counts who was registered, but those that were taken back
-- before they heard of it; `run` tells one run of the name from another: when it began, in microseconds; `past` is when the last one
-- was forgotten. A seat is a party: its number is the last phase at which it arrived, its mark `p` (is registered) or `l` (has left).
-- `k[2]` is a sorted set of the parties by the end of the lease; `k[3]` another of those that have arrived at the present phase.
--
-- A party that is not known, though it was registered, shows that a failover has lost something: until `grace` nothing is over, so that
-- the others can say that they are there, too.

-- Forgets the dead, and goes on to the next phase when all parties have arrived; without a party it ends.
local function settle(publish, channel)
  for _, id in ipairs(bury(k[2])) do
    redis.call('ZREM', k[3], id)
  end
  if field('ended') == 1 or field('began') == 0 or field('grace') > now then
    return
  end
  local parties = redis.call('ZCARD', k[2])
  if parties == 0 then
    redis.call('HSET', k[1], 'ended', '1')
  elseif redis.call('ZCARD', k[3]) >= parties then
    redis.call('HSET', k[1], 'phase', field('phase') + 1)
    redis.call('DEL', k[3])
    sweep(4 * parties + 64)
  else
    return
  end
  redis.pcall(publish, channel, field('phase'))
end

-- Milliseconds until something may be over by itself; -1 where nothing can.
local function soonest()
  local grace = field('grace') - now
  return grace > 0 and grace or first_end(k[2])
end

-- A client saw this phase; a failover has lost that it was reached.
local function catch_up(phase, publish, channel)
  if phase > field('phase') then
    redis.call('HSET', k[1], 'phase', phase)
    redis.call('DEL', k[3])
    redis.pcall(publish, channel, phase)
  end
end

local function forgotten(lease)
  redis.call('HSET', k[1], 'grace', string.format('%.0f', now + lease / 2))
end

-- Whether a party of that run takes part in the present one. Where none is known, as after a failover, it is that of the party; so it is
-- where a failover has lost that the one before was forgotten.
local function is_of(run)
  run = tonumber(run)
  local present = field('run')
  if run <= field('past') or run < present then
    return false
  end
  if run > present and present > 0 then
    if field('ended') == 0 then
      return false
    end
    redis.call('DEL', unpack(k))
    redis.call('HSET', k[1], 'past', string.format('%.0f', present))
  end
  redis.call('HSET', k[1], 'run', string.format('%.0f', run))
  return true
end

-- The present run, begun here where there is none.
local function run_here()
  if field('run') == 0 then
    local begins = math.max(clock[1] * 1000000 + clock[2], field('past') + 1)
    redis.call('HSET', k[1], 'run', string.format('%.0f', begins))
  end
  return field('run')
end

-- Registers a party, or goes on to count it; `number` is the last phase at which it arrived.
local function count(id, turn, number, lease)
  sit(id, turn, number, 'p', now + lease)
  redis.call('ZADD', k[2], now + lease, id)
  if field('began') == 0 then
    redis.call('HSET', k[1], 'began', '1')
  end
  if number == field('phase') then
    redis.call('ZADD', k[3], 0, id)
  end
  keep(lease)
end
