-- queue.lua: beginning of the scripts of a reliable queue. Appended to state.lua; dedup.lua, its
-- replacement or fast_receive.lua precede it.
--
-- KEYS[2]   queue    hash; its settings, since when it is paused (`paused`), the id of the last
--                    message (`seq`), the totals, and the fields of the fast path: see below
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
--
-- The fast path: fast_change.lua and fast_receive.lua execute most calls with a third of the
-- commands. They move no due messages, and drop no expired ones. These fields of the queue's hash
-- say when that is correct. The other scripts write them. On a paused queue, pushes and receives
-- leave the fast path.
--
-- fast_until  the fast path is allowed before this time, in milliseconds since 1970. It is at most
--             a second ahead, and not after the end of a lifetime. New settings remove it
-- plain       1 if no setting of the queue concerns a plain push
-- next_due    no delayed message and no message in flight is due before this time; empty if there
--             are none. The fast path moves it forward, too
-- announced   1 if a push on the fast path has woken the waiters, and since then each receive has
--             found enough messages. Then nobody waits, and a push wakes nobody
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
  'paused', 'announced'}
local set = redis.call('HMGET', QUEUE, unpack(names))
local settings = {}
for at, name in ipairs(names) do
  settings[name] = tonumber(set[at]) or 0
end

-- While a slot moves to another server, a script begins only if all its keys exist. Then a command
-- fails if the script has removed the last element of its key. So removals, and reads after
-- removals, are tried: if one fails, the key is empty.
local function first_score(key)
  local first = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
  return tonumber(first[2])
end
local function remove(key, ...)
  redis.pcall('ZREM', key, ...)
end

-- Returns when a message is due next, in milliseconds since 1970; nil if there is none.
local function earliest_due()
  local delayed, flight = first_score(DELAYED), first_score(FLIGHT)
  return delayed and flight and math.min(delayed, flight) or delayed or flight
end
local due_before = earliest_due()

local function text(number)
  return string.format('%.0f', number)
end

local counts = {}
local function count(what, times)
  counts[what] = (counts[what] or 0) + (times or 1)
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
    remove(READY, id)
  else
    redis.call('ZADD', READY, 9 - state[2], id)
    remove(DELAYED, id)
  end
  remove(FLIGHT, id)
end

-- Removes messages.
local function drop(ids)
  if #ids > 0 then
    for _, key in ipairs({READY, DELAYED, FLIGHT, DEAD, ENDS}) do
      remove(key, unpack(ids))
    end
    redis.pcall('HDEL', BODIES, unpack(ids))
    redis.pcall('HDEL', STATES, unpack(ids))
  end
end

-- Makes a message a dead letter.
local function mark_dead(id, state, reason)
  state[6], state[7] = reason, now
  save(id, state)
  redis.call('ZADD', DEAD, id, id)
  for _, key in ipairs({READY, DELAYED, FLIGHT}) do
    remove(key, id)
  end
  if settings.dead_lifetime > 0 then
    redis.call('ZADD', ENDS, text(now + settings.dead_lifetime), id)
  else
    remove(ENDS, id)
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

-- Returns messages that are due, and when; at most 100.
local function due_ids(key)
  local found = redis.pcall('ZRANGEBYSCORE', key, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, MOST)
  local ids, times = {}, {}
  for at = 1, #found, 2 do
    ids[#ids + 1], times[#times + 1] = found[at], tonumber(found[at + 1])
  end
  return ids, times
end

-- Drops at most 100 expired messages. Returns whether there may be more.
local function drop_expired()
  local ended, dropped = due_ids(ENDS), {}
  for _, id in ipairs(ended) do
    local held = tonumber(redis.pcall('ZSCORE', FLIGHT, id) or nil)
    local state = held and load(id)
    if held and held > now then
      -- The consumer that received it may still acknowledge it.
      redis.call('ZADD', ENDS, text(held), id)
    elseif state and settings.attempts > 0 and state[1] >= settings.attempts then
      mark_dead(id, state, 'attempts')
    else
      dropped[#dropped + 1] = id
    end
  end
  drop(dropped)
  count('ended', #dropped)
  return #ended == MOST
end

-- Makes the due messages of `key` ready: delayed ones, or those that were not settled within their
-- visibility. Returns whether there may be more.
local function move_due(key)
  local ids, times = due_ids(key)
  local packed = #ids > 0 and redis.call('HMGET', STATES, unpack(ids))
  local moved, states, ready, lost = {}, {}, {}, {}
  for n, id in ipairs(ids) do
    local state = packed[n] and read_state(packed[n])
    if not state then
      lost[#lost + 1] = id
    elseif key == FLIGHT and settings.attempts > 0 and state[1] >= settings.attempts then
      mark_dead(id, state, 'attempts')
    else
      local at = 2 * #moved + 1
      moved[#moved + 1] = id
      ready[at], ready[at + 1] = 9 - state[2], id
      state[6] = key == FLIGHT and text(times[n]) or state[6]
      states[at], states[at + 1] = id, cmsgpack.pack(state)
      if state[5] > 0 then
        redis.call('ZADD', ENDS, text(state[5]), id)
      end
    end
  end
  if #moved > 0 then
    if key == FLIGHT then
      redis.call('HSET', STATES, unpack(states))
      count('returned', #moved)
    end
    redis.call('ZADD', READY, unpack(ready))
    remove(key, unpack(moved))
  end
  drop(lost)
  return #ids == MOST
end

-- Moves due messages, and drops expired ones. Returns whether there may be more.
local function process_due()
  local is_more_delayed, is_more_late = move_due(DELAYED), move_due(FLIGHT)
  return drop_expired() or is_more_delayed or is_more_late
end

-- Ends each script that changes something: stores the totals, allows the fast path, wakes waiters,
-- and gives all keys the queue's lifetime. Returns the milliseconds until the next message is due;
-- -1 if there is none.
local function finish_change(publish, channel)
  for what, times in pairs(counts) do
    if times > 0 then
      redis.call('HINCRBY', QUEUE, 'count_' .. what, times)
    end
  end
  local lives = redis.call('PTTL', QUEUE)
  if lives > 0 then
    for at = 3, 11 do
      redis.pcall('PEXPIRE', KEYS[at], lives)
    end
  end
  local due = earliest_due()
  -- A receive alone does not create the queue.
  if lives ~= -2 then
    local is_plain = settings.size + settings.lifetime + settings.capacity + settings.delay == 0
    local fast_until = math.min(now + 1000, first_score(ENDS) or math.huge)
    redis.call('HSET', QUEUE, 'fast_until', text(fast_until), 'plain', is_plain and '1' or '0', 'next_due',
      due and text(due) or '')
  end
  if settings.paused > 0 then
    -- Waiters of a paused queue are notified when it is resumed.
    return due and math.max(due - now, 0) or -1
  end
  -- Waiters have polled when no message was ready, and have received the next due time. So they are
  -- notified only of changes to that. If PUBLISH fails, a later poll finds the message.
  local ready = redis.pcall('ZCARD', READY)
  if ready_before == 0 and type(ready) == 'number' and ready > 0 then
    redis.pcall(publish, channel, '0')
  elseif due and (not due_before or due < due_before) then
    redis.pcall(publish, channel, text(math.max(due - now, 1)))
  end
  return due and math.max(due - now, 0) or -1
end
