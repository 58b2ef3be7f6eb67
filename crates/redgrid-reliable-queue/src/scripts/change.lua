-- change.lua: what tasks of one client do to a queue at the same time, in their order. Behind dedup.lua and queue.lua.
--
-- ARGV[4]   publish  PUBLISH or SPUBLISH
-- ARGV[5]   channel  on which those who wait are told
-- ARGV[6…]  for each change its word, and behind it:
--           push    bytes, priority, delay, lifetime, deduplication id, its window: milliseconds, `` as the queue says; an id that is
--                   `` is none
--           ack     message, receipt
--           nack    message, receipt, delay in milliseconds
--           back    message, receipt: as nack without a delay, and it was not tried
--           reject  message, receipt, reason
--           extend  message, receipt, milliseconds from now
--           remove  message
--           redrive message, or `` for the first 100 of the dead up to the number behind it, which is `` for all
--           purge   how many of the dead are dropped, at most
-- Returns   answer({for each change}): push `new <message>`, `known <message>` where its deduplication id counts, `large <limit>`,
--           `full <limit>`, `memory <why>` where the server has none for it; redrive and purge how many; the others `done`, `gone` where there
--           is no such message, `stale` where it was given to somebody else since, or is dead
--
-- Work: O(log n) for each change, for 100 messages whose lifetime is over, and for 100 deduplication ids that count no more. Sent twice, it
-- acts once.
local sizes = {push = 7, ack = 3, nack = 4, back = 3, reject = 4, extend = 4, remove = 2, redrive = 3, purge = 2}
local at, pushes, others = 6, false, false
while at <= #ARGV do
  pushes, others = pushes or ARGV[at] == 'push', others or ARGV[at] ~= 'push'
  at = at + sizes[ARGV[at]]
end
at = 6

-- A server without memory refuses what may need some, unless the script has written before. So what settles begins with a write that needs
-- none and changes nothing; whether there is memory for what is pushed with it is asked before that, in the same way.
local no_memory
if others then
  if pushes then
    local told = redis.pcall('ZADD', READY, 'XX', 0, '')
    no_memory = type(told) == 'table' and told.err
    if no_memory and not string.find(no_memory, 'OOM', 1, true) then
      return told
    end
  end
  redis.call('ZREM', READY, '')
end

-- Those whose lifetime is over are looked at once.
local is_finished = false
local function finish_once()
  if not is_finished then
    is_finished = true
    finish()
  end
end
local function next_arg()
  at = at + 1
  return ARGV[at - 1]
end
local function number_or(given, else_)
  return given == '' and else_ or tonumber(given)
end

local function push()
  local bytes, priority, delay, lifetime, once, window =
    next_arg(), next_arg(), next_arg(), next_arg(), next_arg(), next_arg()
  if no_memory then
    return 'memory ' .. no_memory
  end
  delay, lifetime = number_or(delay, settings.delay), number_or(lifetime, settings.lifetime)
  window = number_or(window, settings.window > 0 and settings.window or 300000)
  if once ~= '' then
    local counts_until = redis.call('ZSCORE', UNTIL, once)
    if counts_until and tonumber(counts_until) > now then
      return 'known ' .. (redis.call('HGET', ONCE, once) or '')
    end
  end
  if settings.size > 0 and #bytes > settings.size then
    return 'large ' .. text(settings.size)
  end
  local function is_full()
    return settings.capacity > 0 and redis.call('HLEN', STATES) >= settings.capacity
  end
  if is_full() then
    finish_once()
  end
  if is_full() then
    return 'full ' .. text(settings.capacity)
  end
  -- By the server's clock, so that no number comes again where the last one is forgotten: by a delete, or a failover.
  local last = tonumber(redis.call('HGET', QUEUE, 'seq') or nil) or 0
  local id = string.format('%016.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
  redis.call('HSET', QUEUE, 'seq', id)
  local state = {0, tonumber(priority), '', now, lifetime > 0 and now + lifetime or 0, '', 0, lifetime}
  redis.call('HSET', BODIES, id, bytes)
  save(id, state)
  if once ~= '' then
    redis.call('HSET', ONCE, once, id)
    redis.call('ZADD', UNTIL, text(now + window), once)
    for _, key in ipairs({ONCE, UNTIL}) do
      if redis.call('PTTL', key) < window then
        redis.call('PEXPIRE', key, text(window))
      end
    end
  end
  place(id, state, now + delay)
  count('pushed')
  return 'new ' .. id
end

-- A message that was given to who asks, and to nobody since.
local function given(id, receipt)
  local state = load(id)
  if not state then
    return nil, 'gone'
  end
  if receipt == '' or state[3] ~= receipt then
    return nil, 'stale'
  end
  return state
end

local changes = {push = push}

function changes.ack()
  local id = next_arg()
  local state, why = given(id, next_arg())
  if not state then
    return why
  end
  drop(id)
  count('acknowledged')
  return 'done'
end

function changes.nack()
  local id, receipt, delay = next_arg(), next_arg(), next_arg()
  local state, why = given(id, receipt)
  if not state then
    return why
  end
  if state[7] > 0 then
    return 'stale'
  end
  again(id, state, now + tonumber(delay), '')
  return 'done'
end

function changes.back()
  local id = next_arg()
  local state, why = given(id, next_arg())
  if not state or not redis.call('ZSCORE', FLIGHT, id) then
    return why or 'stale'
  end
  state[1], state[3] = state[1] - 1, ''
  save(id, state)
  place(id, state, now)
  return 'done'
end

function changes.reject()
  local id, receipt, reason = next_arg(), next_arg(), next_arg()
  local state, why = given(id, receipt)
  if not state then
    return why
  end
  if state[7] > 0 then
    return 'stale'
  end
  state[3] = ''
  kill(id, state, reason)
  return 'done'
end

function changes.extend()
  local id, receipt, visibility = next_arg(), next_arg(), next_arg()
  local state, why = given(id, receipt)
  if not state then
    return why
  end
  if not redis.call('ZSCORE', FLIGHT, id) then
    return 'stale'
  end
  redis.call('ZADD', FLIGHT, text(now + tonumber(visibility)), id)
  return 'done'
end

function changes.remove()
  local id = next_arg()
  if redis.call('HEXISTS', STATES, id) == 0 then
    return 'gone'
  end
  drop(id)
  return 'done'
end

function changes.redrive()
  local one, last = next_arg(), next_arg()
  -- The dead whose time is over are not moved.
  finish_once()
  local ids = {one}
  if one == '' then
    ids = redis.call('ZRANGEBYSCORE', DEAD, '-inf', last == '' and '+inf' or last, 'LIMIT', 0, MOST)
  end
  local moved = 0
  for _, id in ipairs(ids) do
    local state = redis.call('ZSCORE', DEAD, id) and load(id)
    if state then
      -- It begins anew, its lifetime as well.
      state[1], state[3], state[5], state[6], state[7] = 0, '', state[8] > 0 and now + state[8] or 0, '', 0
      save(id, state)
      redis.call('ZREM', ENDS, id)
      place(id, state, now)
      redis.call('ZREM', DEAD, id)
      moved = moved + 1
    end
  end
  return text(moved)
end

function changes.purge()
  local ids = redis.call('ZRANGE', DEAD, 0, math.min(tonumber(next_arg()), MOST) - 1)
  for _, id in ipairs(ids) do
    drop(id)
  end
  return text(#ids)
end

local told = {}
while at <= #ARGV do
  told[#told + 1] = changes[next_arg()]()
end
finish_once()
local over = due_of(UNTIL)
for _, id in ipairs(over) do
  redis.call('HDEL', ONCE, id)
  redis.call('ZREM', UNTIL, id)
end
close(ARGV[4], ARGV[5])
return answer(told)
