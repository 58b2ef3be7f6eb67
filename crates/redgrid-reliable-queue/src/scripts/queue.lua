-- queue.lua: what the scripts of a reliable queue begin with, behind state.lua and dedup.lua or what stands for it.
--
-- KEYS[2]   queue    hash; its settings, the number of the last message (`seq`), and how often what happened
-- KEYS[3]   bodies   hash; message -> its bytes
-- KEYS[4]   states   hash; message -> packed {attempt, priority, receipt, pushed, ends, reason, died, lifetime}: times in milliseconds
--                    since 1970, `ends` and `lifetime` 0 for never, `receipt` of who was given it last or `` where it was given back
-- KEYS[5]   ready    sorted set; 9 - priority. Of one priority messages are in the order of their numbers: those have 16 digits
-- KEYS[6]   delayed  sorted set; when it is due
-- KEYS[7]   flight   sorted set; until when nobody else is given it
-- KEYS[8]   ends     sorted set; when its lifetime is over
-- KEYS[9]   once     hash; deduplication id -> message
-- KEYS[10]  until    sorted set; deduplication id -> until when it counts
-- KEYS[11]  dead     sorted set; its number: those that are given to nobody any more
--
-- A message is in one of ready, delayed, flight and dead. Its state is written before its place, and its place goes before its state.
local QUEUE, BODIES, STATES, READY, DELAYED = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local FLIGHT, ENDS, ONCE, UNTIL, DEAD = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local MOST = 100
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- What is of another type under one of the keys is found before anything is written.
for _, key in ipairs({QUEUE, BODIES, STATES, ONCE}) do
  redis.call('HLEN', key)
end
for _, key in ipairs({DELAYED, FLIGHT, ENDS, UNTIL, DEAD}) do
  redis.call('ZCARD', key)
end
local ready_before = redis.call('ZCARD', READY)

local names = {'visibility', 'attempts', 'size', 'window', 'lifetime', 'dead_lifetime', 'capacity', 'delay'}
local set = redis.call('HMGET', QUEUE, unpack(names))
local settings = {}
for at, name in ipairs(names) do
  settings[name] = tonumber(set[at]) or 0
end

-- When something is due next, in milliseconds since 1970; nil where nothing is.
local function earliest()
  local due
  for _, key in ipairs({DELAYED, FLIGHT}) do
    local first = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
    due = first and math.min(due or first, first) or due
  end
  return due
end
local due_before = earliest()

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

-- Where it waits to be given to somebody, until its end.
local function place(id, state, due)
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

-- It is over with a message.
local function drop(id)
  for _, key in ipairs({READY, DELAYED, FLIGHT, DEAD, ENDS}) do
    redis.call('ZREM', key, id)
  end
  redis.call('HDEL', BODIES, id)
  redis.call('HDEL', STATES, id)
end

-- Nobody is given it any more.
local function kill(id, state, reason)
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

-- It is given to somebody again, or is dead where it was tried often enough. `receipt` is whose acknowledgement still counts.
local function again(id, state, due, receipt)
  state[3] = receipt
  if settings.attempts > 0 and state[1] >= settings.attempts then
    kill(id, state, 'attempts')
  else
    save(id, state)
    place(id, state, due)
    count('returned')
  end
end

local function due_of(key)
  return redis.call('ZRANGEBYSCORE', key, '-inf', text(now), 'LIMIT', 0, MOST)
end

-- At most 100 whose lifetime is over go. Tells whether there may be more.
local function finish()
  local ended = due_of(ENDS)
  for _, id in ipairs(ended) do
    local held = tonumber(redis.call('ZSCORE', FLIGHT, id) or nil)
    local state = held and load(id)
    if held and held > now then
      -- Who has it may still be done with it.
      redis.call('ZADD', ENDS, text(held), id)
    elseif state and settings.attempts > 0 and state[1] >= settings.attempts then
      kill(id, state, 'attempts')
    else
      drop(id)
      count('ended')
    end
  end
  return #ended == MOST
end

-- What time has brought: at most 100 of each. Tells whether there may be more.
local function tidy()
  local delayed = due_of(DELAYED)
  for _, id in ipairs(delayed) do
    local state = load(id)
    if state then
      place(id, state, now)
    else
      drop(id)
    end
  end
  local late = due_of(FLIGHT)
  for _, id in ipairs(late) do
    local state = load(id)
    if state then
      again(id, state, now, state[3])
    else
      drop(id)
    end
  end
  local is_more = finish()
  return #delayed == MOST or #late == MOST or is_more
end

-- The end of each script that changes something: what happened is counted, those who wait are told, and all lives as long as the
-- queue. Tells in how many milliseconds something is due; -1 where nothing is.
local function close(publish, channel)
  for what, times in pairs(counts) do
    redis.call('HINCRBY', QUEUE, 'count_' .. what, times)
  end
  local lives = redis.call('PTTL', QUEUE)
  if lives > 0 then
    for at = 3, 11 do
      redis.call('PEXPIRE', KEYS[at], lives)
    end
  end
  local due = earliest()
  -- Who waits has seen that nothing is ready, and knows when something will be. What can not be sent is found out by a look.
  if ready_before == 0 and redis.call('ZCARD', READY) > 0 then
    redis.pcall(publish, channel, '0')
  elseif due and (not due_before or due < due_before) then
    redis.pcall(publish, channel, text(math.max(due - now, 1)))
  end
  return due and math.max(due - now, 0) or -1
end
