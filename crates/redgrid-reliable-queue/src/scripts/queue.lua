-- queue.lua: beginning of the scripts of a reliable queue, after state.lua and dedup.lua or its
-- replacement.
--
-- KEYS[2]   queue    hash; its settings, since when it is paused (`paused`), the id of the last
--                    message (`seq`), and the totals
-- KEYS[3]   bodies   hash; message -> its bytes
-- KEYS[4]   states   hash; message -> packed {attempt, priority, receipt, pushed, ends, reason,
--                    died, lifetime}: times in milliseconds since 1970. `ends` and `lifetime` are 0
--                    if unlimited. `receipt` is that of the last delivery, or empty after a return.
--                    `reason` of a dead letter is why it died; of another message, since or from
--                    when it is ready, as text, or empty if that is its push
-- KEYS[5]   ready    sorted set; score: 9 - priority. Messages of one priority are in the order of
--                    their ids, which have 16 digits
-- KEYS[6]   delayed  sorted set; score: when the message is due
-- KEYS[7]   flight   sorted set; score: the end of its visibility
-- KEYS[8]   ends     sorted set; score: the end of its lifetime
-- KEYS[9]   once     hash; deduplication id -> message
-- KEYS[10]  until    sorted set of deduplication ids; score: until when the id counts
-- KEYS[11]  dead     sorted set of dead letters; score: the id of the message
--
-- A message is in one of ready, delayed, flight and dead. Its state is written before it is added
-- to one of them. It is removed from them before its state is removed.
local QUEUE, BODIES, STATES, READY, DELAYED = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local FLIGHT, ENDS, ONCE, UNTIL, DEAD = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local MOST = 100
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A key of another type causes an error here, before anything is written.
for _, key in ipairs({QUEUE, BODIES, STATES, ONCE}) do
  redis.call('HLEN', key)
end
for _, key in ipairs({DELAYED, FLIGHT, ENDS, UNTIL, DEAD}) do
  redis.call('ZCARD', key)
end
local ready_before = redis.call('ZCARD', READY)

local names = {'visibility', 'attempts', 'size', 'window', 'lifetime', 'dead_lifetime', 'capacity', 'delay',
  'paused'}
local set = redis.call('HMGET', QUEUE, unpack(names))
local settings = {}
for at, name in ipairs(names) do
  settings[name] = tonumber(set[at]) or 0
end

-- Returns when a message is due next, in milliseconds since 1970; nil if there is none.
local function earliest_due()
  local due
  for _, key in ipairs({DELAYED, FLIGHT}) do
    local first = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
    due = first and math.min(due or first, first) or due
  end
  return due
end
local due_before = earliest_due()

local function text(number)
  return string.format('%.0f', number)
end

local counts = {}
local function count(what)
  counts[what] = (counts[what] or 0) + 1
end

local function load(id)
  local state = redis.call('HGET', STATES, id)
  return state and read_state(state) or nil
end

local function save(id, state)
  redis.call('HSET', STATES, id, cmsgpack.pack(state))
end

-- Adds a message to the ready or the delayed messages, and registers the end of its lifetime.
local function enqueue(id, state, due)
  if state[5] > 0 then
    redis.call('ZADD', ENDS, text(state[5]), id)
  end
  if due > now then
    redis.call('ZADD', DELAYED, text(due), id)
    redis.call('ZREM', READY, id)
  else
    redis.call('ZADD', READY, 9 - state[2], id)
    redis.call('ZREM', DELAYED, id)
  end
  redis.call('ZREM', FLIGHT, id)
end

-- Removes a message.
local function drop(id)
  for _, key in ipairs({READY, DELAYED, FLIGHT, DEAD, ENDS}) do
    redis.call('ZREM', key, id)
  end
  redis.call('HDEL', BODIES, id)
  redis.call('HDEL', STATES, id)
end

-- Makes a message a dead letter.
local function mark_dead(id, state, reason)
  state[6], state[7] = reason, now
  save(id, state)
  redis.call('ZADD', DEAD, id, id)
  for _, key in ipairs({READY, DELAYED, FLIGHT}) do
    redis.call('ZREM', key, id)
  end
  if settings.dead_lifetime > 0 then
    redis.call('ZADD', ENDS, text(now + settings.dead_lifetime), id)
  else
    redis.call('ZREM', ENDS, id)
  end
  count('dead')
end

-- Makes a message ready again from `due` on, or a dead letter after the maximum number of attempts.
-- An acknowledgement with `receipt` is still accepted, unless `receipt` is empty.
local function redeliver(id, state, due, receipt)
  state[3] = receipt
  if settings.attempts > 0 and state[1] >= settings.attempts then
    mark_dead(id, state, 'attempts')
  else
    state[6] = text(due)
    save(id, state)
    enqueue(id, state, due)
    count('returned')
  end
end

local function due_ids(key)
  return redis.call('ZRANGEBYSCORE', key, '-inf', text(now), 'LIMIT', 0, MOST)
end

-- Drops at most 100 expired messages. Returns whether there may be more.
local function drop_expired()
  local ended = due_ids(ENDS)
  for _, id in ipairs(ended) do
    local held = tonumber(redis.call('ZSCORE', FLIGHT, id) or nil)
    local state = held and load(id)
    if held and held > now then
      -- The consumer that received it may still acknowledge it.
      redis.call('ZADD', ENDS, text(held), id)
    elseif state and settings.attempts > 0 and state[1] >= settings.attempts then
      mark_dead(id, state, 'attempts')
    else
      drop(id)
      count('ended')
    end
  end
  return #ended == MOST
end

-- Moves messages that are due, at most 100 of each kind. Returns whether there may be more.
local function process_due()
  local delayed = due_ids(DELAYED)
  for _, id in ipairs(delayed) do
    local state = load(id)
    if state then
      enqueue(id, state, now)
    else
      drop(id)
    end
  end
  local late = due_ids(FLIGHT)
  for _, id in ipairs(late) do
    local state = load(id)
    if state then
      redeliver(id, state, tonumber(redis.call('ZSCORE', FLIGHT, id)), state[3])
    else
      drop(id)
    end
  end
  local is_more = drop_expired()
  return #delayed == MOST or #late == MOST or is_more
end

-- Ends each script that changes something: stores the totals, wakes waiters, and gives all keys the
-- queue's lifetime. Returns the milliseconds until the next message is due; -1 if there is none.
local function finish_change(publish, channel)
  for what, times in pairs(counts) do
    redis.call('HINCRBY', QUEUE, 'count_' .. what, times)
  end
  local lives = redis.call('PTTL', QUEUE)
  if lives > 0 then
    for at = 3, 11 do
      redis.call('PEXPIRE', KEYS[at], lives)
    end
  end
  local due = earliest_due()
  -- Waiters have polled when no message was ready, and have received the next due time. So they are
  -- notified only of changes to that. If PUBLISH fails, a later poll finds the message. Waiters of
  -- a paused queue are notified when it is resumed.
  if settings.paused > 0 then
    return due and math.max(due - now, 0) or -1
  end
  if ready_before == 0 and redis.call('ZCARD', READY) > 0 then
    redis.pcall(publish, channel, '0')
  elseif due and (not due_before or due < due_before) then
    redis.pcall(publish, channel, text(math.max(due - now, 1)))
  end
  return due and math.max(due - now, 0) or -1
end
