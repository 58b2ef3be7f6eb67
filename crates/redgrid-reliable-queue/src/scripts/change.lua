-- change.lua: what tasks of one client do to a queue at the same time, in their order. Behind once.lua and queue.lua.
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
--           `full <limit>`; redrive and purge how many; the others `done`, `gone` where there is no such message, `stale` where it was given to
--           somebody else since, or is dead
--
-- Work: O(log n) for each change, and for 100 deduplication ids that count no more. Sent twice, it acts once.
local at = 6
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
  if settings.capacity > 0 and redis.call('HLEN', STATES) >= settings.capacity then
    return 'full ' .. text(settings.capacity)
  end
  local id = string.format('%016.0f', redis.call('HINCRBY', QUEUE, 'seq', 1))
  local state = {0, tonumber(priority), '', now, lifetime > 0 and now + lifetime or 0, '', 0}
  redis.call('HSET', BODIES, id, bytes)
  save(id, state)
  if state[5] > 0 then
    redis.call('ZADD', ENDS, text(state[5]), id)
  end
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
  if not load(id) then
    return 'gone'
  end
  drop(id)
  return 'done'
end

function changes.redrive()
  local one, last = next_arg(), next_arg()
  local ids = {one}
  if one == '' then
    ids = redis.call('ZRANGEBYSCORE', DEAD, '-inf', last == '' and '+inf' or last, 'LIMIT', 0, MOST)
  end
  local moved = 0
  for _, id in ipairs(ids) do
    local state = redis.call('ZSCORE', DEAD, id) and load(id)
    if state then
      -- It begins anew, its lifetime as well.
      local lifetime = state[5] > 0 and state[5] - state[4] or 0
      state[1], state[3], state[5], state[6], state[7] = 0, '', lifetime > 0 and now + lifetime or 0, '', 0
      save(id, state)
      redis.call('ZREM', ENDS, id)
      if state[5] > 0 then
        redis.call('ZADD', ENDS, text(state[5]), id)
      end
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
local over = due_of(UNTIL)
for _, id in ipairs(over) do
  redis.call('HDEL', ONCE, id)
  redis.call('ZREM', UNTIL, id)
end
close(ARGV[4], ARGV[5])
return answer(told)
