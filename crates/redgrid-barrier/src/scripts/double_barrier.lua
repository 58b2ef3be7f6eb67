-- double_barrier.lua: what the scripts of a double barrier have in common, behind seats.lua.
--
-- `k[1]` is its hash: `session` counts the openings, `parties` how many each needs; a seat's number is a session, its mark `w` (waits
-- outside since that session), `i` (is inside in it) or `l` (has left). `k[2]` and `k[3]` are sorted sets of who waits and who is
-- inside, by the end of the lease.
--
-- One who was inside and is not known shows that a failover has lost something: until `grace` nobody is told that all have left, so that
-- the others can say that they are there, too.

local function forgotten(lease)
  redis.call('HSET', k[1], 'grace', string.format('%.0f', now + lease / 2))
end

local function nobody_is_inside()
  return redis.call('ZCARD', k[3]) == 0 and field('grace') <= now
end

-- Milliseconds until that may be so by itself; -1 where it can not.
local function soonest()
  local grace = field('grace') - now
  return grace > 0 and grace or first_end(k[3])
end

-- Lets the first so many in, in the present session.
local function let_in(count)
  local session = field('session')
  local waiting = redis.call('ZRANGE', k[2], 0, count - 1, 'WITHSCORES')
  for i = 1, #waiting, 2 do
    redis.call('ZREM', k[2], waiting[i])
    redis.call('ZADD', k[3], waiting[i + 1], waiting[i])
    sit(waiting[i], seat(waiting[i]) or '0', session, 'i', waiting[i + 1])
  end
end

-- Forgets the dead, and opens the next session when nobody is inside and enough wait.
local function settle(publish, channel)
  local changed = #bury(k[3]) > 0
  bury(k[2])
  local parties = field('parties')
  if nobody_is_inside() and parties > 0 and redis.call('ZCARD', k[2]) >= parties then
    redis.call('HSET', k[1], 'session', field('session') + 1)
    let_in(parties)
    sweep(4 * parties + 64)
    changed = true
  end
  if changed then
    redis.pcall(publish, channel, field('session'))
  end
end

-- A client was inside in this session, of which a failover has lost the opening: those who waited for it are in.
local function catch_up(session, publish, channel)
  if session <= field('session') then
    return
  end
  redis.call('HSET', k[1], 'session', session)
  local more = field('parties') - redis.call('ZCARD', k[3]) - 1
  if more > 0 then
    let_in(more)
  end
  redis.pcall(publish, channel, session)
end
