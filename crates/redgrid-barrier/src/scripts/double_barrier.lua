-- double_barrier.lua: the common part of the scripts of a double barrier, behind participants.lua.
--
-- `k[1]` is its hash: `session` counts the openings, `parties` is the number that each needs. A
-- participant's value is a session; its state is `w` (waits outside since that session), `i` (is
-- inside in it) or `l` (has left). `k[2]` and `k[3]` are sorted sets of the waiters and of the
-- participants inside, by the end of the lease.
--
-- An unknown participant that was inside shows that a failover has lost data. Until `grace`, no
-- leave reports that all have left, so that the others can announce that they are inside, too.

local function start_grace(lease)
  redis.call('HSET', k[1], 'grace', string.format('%.0f', now + lease / 2))
end

local function is_empty()
  return redis.call('ZCARD', k[3]) == 0 and field('grace') <= now
end

-- Returns the milliseconds until `is_empty` may become true by itself; -1 if it cannot.
local function next_change()
  local grace = field('grace') - now
  return grace > 0 and grace or next_lease_end(k[3])
end

-- Admits the first `count` waiters to the current session.
local function admit(count)
  local session = field('session')
  local waiting = redis.call('ZRANGE', k[2], 0, count - 1, 'WITHSCORES')
  for i = 1, #waiting, 2 do
    redis.call('ZREM', k[2], waiting[i])
    redis.call('ZADD', k[3], waiting[i + 1], waiting[i])
    set_participant(waiting[i], participant(waiting[i]) or '0', session, 'i', waiting[i + 1])
  end
end

-- Evicts expired participants. Opens the next session if the barrier is empty and enough wait.
local function update(publish, channel)
  local changed = #evict_expired(k[3]) > 0
  evict_expired(k[2])
  local parties = field('parties')
  if is_empty() and parties > 0 and redis.call('ZCARD', k[2]) >= parties then
    redis.call('HSET', k[1], 'session', field('session') + 1)
    admit(parties)
    purge(4 * parties + 64)
    changed = true
  end
  if changed then
    redis.pcall(publish, channel, field('session'))
  end
end

-- Restores a session after a failover has lost its opening: a client was inside in it. The waiters
-- of that session are admitted.
local function restore_session(session, publish, channel)
  if session <= field('session') then
    return
  end
  redis.call('HSET', k[1], 'session', session)
  local more = field('parties') - redis.call('ZCARD', k[3]) - 1
  if more > 0 then
    admit(more)
  end
  redis.pcall(publish, channel, session)
end
