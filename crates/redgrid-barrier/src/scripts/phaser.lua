-- phaser.lua: the common part of the scripts of a phaser, behind participants.lua.
--
-- `k[1]` is its hash:
-- - `phase`: the current phase, from 0
-- - `ended`: 1 if the phaser has ended
-- - `began`: the number of registrations, without those that were undone before they were confirmed
-- - `run`: identifies a run of the name: when it began, in microseconds
-- - `past`: when the last run was deleted, in microseconds
--
-- A participant is a party: its value is the last phase at which it arrived; its state is `p` (is
-- registered) or `l` (has left). `k[2]` is a sorted set of the parties by the end of the lease.
-- `k[3]` is a sorted set of the parties that have arrived at the current phase.
--
-- An unknown party that was registered shows that a failover has lost data. Until `grace` no phase
-- ends, so that the others can announce that they are registered, too.

-- Evicts expired parties. Begins the next phase if all parties have arrived; ends the phaser if no
-- party is left.
local function update(publish, channel)
  for _, id in ipairs(evict_expired(k[2])) do
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
    purge(4 * parties + 64)
  else
    return
  end
  redis.pcall(publish, channel, field('phase'))
end

-- Returns the milliseconds until the phase may end by itself; -1 if it cannot.
local function next_change()
  local grace = field('grace') - now
  return grace > 0 and grace or next_lease_end(k[2])
end

-- Restores a phase that a client saw and a failover has lost.
local function restore_phase(phase, publish, channel)
  if phase > field('phase') then
    redis.call('HSET', k[1], 'phase', phase)
    redis.call('DEL', k[3])
    redis.pcall(publish, channel, phase)
  end
end

local function start_grace(lease)
  redis.call('HSET', k[1], 'grace', string.format('%.0f', now + lease / 2))
end

-- Returns whether a party of that run belongs to the current run. If no run is known, as after a
-- failover, the run of the party becomes the current one. This also applies if a failover has lost
-- the deletion of the previous run.
local function is_current_run(run)
  run = tonumber(run)
  local current = field('run')
  if run <= field('past') or run < current then
    return false
  end
  if run > current and current > 0 then
    if field('ended') == 0 then
      return false
    end
    redis.call('DEL', unpack(k))
    redis.call('HSET', k[1], 'past', string.format('%.0f', current))
  end
  redis.call('HSET', k[1], 'run', string.format('%.0f', run))
  return true
end

-- Returns the current run, and begins one if there is none.
local function ensure_run()
  if field('run') == 0 then
    local begins = math.max(clock[1] * 1000000 + clock[2], field('past') + 1)
    redis.call('HSET', k[1], 'run', string.format('%.0f', begins))
  end
  return field('run')
end

-- Registers a party or renews its registration; `arrived` is the last phase at which it arrived.
local function register(id, generation, arrived, lease)
  set_participant(id, generation, arrived, 'p', now + lease)
  redis.call('ZADD', k[2], now + lease, id)
  if field('began') == 0 then
    redis.call('HSET', k[1], 'began', '1')
  end
  if arrived == field('phase') then
    redis.call('ZADD', k[3], 0, id)
  end
  extend_ttl(lease)
end
