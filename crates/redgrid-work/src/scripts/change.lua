-- change.lua: executes changes of a queue by concurrent tasks of one client, in their order.
-- Appended to fast_change.lua, dedup.lua, state.lua and queue.lua.
--
-- ARGV[4]   publish  PUBLISH or SPUBLISH
-- ARGV[5]   channel  that wakes waiters
-- ARGV[6…]  for each change its operation and arguments:
--           push     bytes, priority, delay, lifetime, deduplication id, its window. Times in
--                    milliseconds; an empty time means the queue's setting, an empty id no
--                    deduplication
--           ack      message, receipt
--           nack     message, receipt, delay in milliseconds
--           back     message, receipt: nack without a delay; the delivery does not count as an
--                    attempt
--           reject   message, receipt, reason
--           extend   message, receipt, milliseconds from now
--           remove   message
--           redrive  message, id; if the message is empty, the first 100 dead letters up to this
--                    id; an empty id means no limit
--           purge    the maximum number of dead letters to drop
--           discard  message: drops it if it is a dead letter
-- Returns   answer({for each change}). push: `new <message>`; `known <message>` for a duplicate;
--           `large <limit>`; `full <limit>`; `memory <error>` if the server is out of memory.
--           redrive, purge and discard: the number of messages. The others: `done`; `gone` if
--           there is no such message; `stale` if the receipt is not that of the last delivery.
--           Also `stale`: nack and reject of a dead letter, back and extend of a message that is
--           not in flight
--
-- Work: O(log n) for each change, for 100 expired messages, and for 100 expired deduplication ids.
-- Sent twice, it acts once.
local sizes = {push = 7, ack = 3, nack = 4, back = 3, reject = 4, extend = 4, remove = 2, redrive = 3, purge = 2,
  discard = 2}
local at, pushes, others = 6, false, false
while at <= #ARGV do
  pushes, others = pushes or ARGV[at] == 'push', others or ARGV[at] ~= 'push'
  at = at + sizes[ARGV[at]]
end
at = 6

-- A server that is out of memory rejects writes that may need memory, unless the script has already
-- written. Settling must work even then, so the script begins with a write that needs no memory and
-- changes nothing. Before that write, another one that changes nothing tests whether there is
-- memory for the pushes in the batch.
local no_memory
if others then
  if pushes then
    local probe = redis.pcall('ZADD', READY, 'XX', 0, '')
    no_memory = type(probe) == 'table' and probe.err
    if no_memory and not string.find(no_memory, 'OOM', 1, true) then
      return probe
    end
  end
  redis.call('ZREM', READY, '')
end

-- Expired messages are dropped once per script.
local has_dropped_expired = false
local function drop_expired_once()
  if not has_dropped_expired then
    has_dropped_expired = true
    drop_expired()
  end
end
local function next_arg()
  at = at + 1
  return ARGV[at - 1]
end
local function number_or(value, else_)
  return value == '' and else_ or tonumber(value)
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
    drop_expired_once()
  end
  if is_full() then
    return 'full ' .. text(settings.capacity)
  end
  -- The id is based on the server's clock, so it is not reused after a delete. It may repeat after
  -- a failover if the new primary's clock is behind and the last pushes were lost.
  local last = tonumber(redis.call('HGET', QUEUE, 'seq') or nil) or 0
  local id = string.format('%016.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
  redis.call('HSET', QUEUE, 'seq', id)
  local ready_from = delay > 0 and text(now + delay) or ''
  local state = {0, tonumber(priority), '', now, lifetime > 0 and now + lifetime or 0, ready_from, 0, lifetime}
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
  enqueue(id, state, now + delay)
  count('pushed')
  return 'new ' .. id
end

-- Returns the state of a message if its last delivery has this receipt; otherwise nil and the
-- reply.
local function held_state(id, receipt)
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
  local state, why = held_state(id, next_arg())
  if not state then
    return why
  end
  drop({id})
  count('acknowledged')
  return 'done'
end

function changes.nack()
  local id, receipt, delay = next_arg(), next_arg(), next_arg()
  local state, why = held_state(id, receipt)
  if not state then
    return why
  end
  if state[7] > 0 then
    return 'stale'
  end
  redeliver(id, state, now + tonumber(delay), '')
  return 'done'
end

function changes.back()
  local id = next_arg()
  local state, why = held_state(id, next_arg())
  if not state or not redis.call('ZSCORE', FLIGHT, id) then
    return why or 'stale'
  end
  state[1], state[3] = state[1] - 1, ''
  save(id, state)
  enqueue(id, state, now)
  return 'done'
end

function changes.reject()
  local id, receipt, reason = next_arg(), next_arg(), next_arg()
  local state, why = held_state(id, receipt)
  if not state then
    return why
  end
  if state[7] > 0 then
    return 'stale'
  end
  state[3] = ''
  mark_dead(id, state, reason)
  return 'done'
end

function changes.extend()
  local id, receipt, visibility = next_arg(), next_arg(), next_arg()
  local state, why = held_state(id, receipt)
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
  drop({id})
  return 'done'
end

function changes.redrive()
  local one, last = next_arg(), next_arg()
  -- Drop expired dead letters first, so that they are not moved.
  drop_expired_once()
  local ids = {one}
  if one == '' then
    ids = redis.call('ZRANGEBYSCORE', DEAD, '-inf', last == '' and '+inf' or last, 'LIMIT', 0, MOST)
  end
  local moved = 0
  for _, id in ipairs(ids) do
    local state = redis.call('ZSCORE', DEAD, id) and load(id)
    if state then
      -- The message starts again, with zero attempts and a new lifetime.
      state[1], state[3], state[5], state[6], state[7] = 0, '', state[8] > 0 and now + state[8] or 0, text(now), 0
      save(id, state)
      remove(ENDS, id)
      enqueue(id, state, now)
      remove(DEAD, id)
      moved = moved + 1
    end
  end
  return text(moved)
end

function changes.purge()
  local ids = redis.call('ZRANGE', DEAD, 0, math.min(tonumber(next_arg()), MOST) - 1)
  drop(ids)
  return text(#ids)
end

function changes.discard()
  local id = next_arg()
  if not redis.call('ZSCORE', DEAD, id) then
    return '0'
  end
  drop({id})
  return '1'
end

local replies = {}
while at <= #ARGV do
  replies[#replies + 1] = changes[next_arg()]()
end
drop_expired_once()
local expired = due_ids(UNTIL)
if #expired > 0 then
  redis.pcall('HDEL', ONCE, unpack(expired))
  remove(UNTIL, unpack(expired))
end
finish_change(ARGV[4], ARGV[5])
return answer(replies)
