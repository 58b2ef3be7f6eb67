-- browse.lua: returns messages without receiving them. Appended to state.lua.
--
-- KEYS[1…10]  as KEYS[2…11] of queue.lua
-- ARGV[1]     `one`, `first` or `dead`
-- ARGV[2]     one: the message; first and dead: the maximum number, at most 100
-- ARGV[3]     dead: only dead letters after this id; empty for the first page
-- Returns     for each message, flat: message, attempt, priority, pushed, state, until, reason,
--             bytes. The state is ready, delayed, flight or dead. `until` is the end of this state;
--             for dead letters the time of death; for ready messages 0; in milliseconds since 1970.
--             `first` returns the messages that a receive would get now, in that order. A reply has
--             at most 4 MiB, or one larger message. Expired messages are left out, even if they
--             have not been dropped yet.
--
-- Work: O(log n) for each message. `first` reads 100 messages that are ready, 100 that are due, and
-- 100 that were not settled in time. Writes nothing.
local BODIES, STATES, READY, DELAYED, FLIGHT = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ENDS, DEAD = KEYS[7], KEYS[10]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply, size = {}, 0
local function text(number)
  return string.format('%.0f', number)
end
-- Returns the state of a message that has not expired.
local function live_state(id)
  local packed = redis.call('HGET', STATES, id)
  local ends = tonumber(redis.call('ZSCORE', ENDS, id) or nil)
  local held = ends and ends <= now and tonumber(redis.call('ZSCORE', FLIGHT, id) or nil)
  if packed and (not ends or ends > now or (held and held > now)) then
    return read_state(packed)
  end
end
local function append(id)
  local state = live_state(id)
  if not state then
    return true
  end
  size = size + redis.call('HSTRLEN', BODIES, id)
  if #reply > 0 and size > 4194304 then
    return false
  end
  local state_name, until_ = 'ready', '0'
  if redis.call('ZSCORE', DEAD, id) then
    state_name, until_ = 'dead', text(state[7])
  else
    for name, key in pairs({delayed = DELAYED, flight = FLIGHT}) do
      local due = redis.call('ZSCORE', key, id)
      if due and tonumber(due) > now then
        state_name, until_ = name, due
      end
    end
  end
  local bytes = redis.call('HGET', BODIES, id) or ''
  for _, part in ipairs({id, state[1], state[2], text(state[4]), state_name, until_, state[6], bytes}) do
    reply[#reply + 1] = part
  end
  return true
end

if ARGV[1] == 'one' then
  append(ARGV[2])
  return reply
end
local most, ids = math.min(tonumber(ARGV[2]), 100), {}
if ARGV[1] == 'dead' then
  local behind = ARGV[3] == '' and '-inf' or '(' .. ARGV[3]
  ids = redis.call('ZRANGEBYSCORE', DEAD, behind, '+inf', 'LIMIT', 0, most)
else
  local order, attempts = {}, tonumber(redis.call('HGET', KEYS[1], 'attempts') or nil) or 0
  local function add(candidates, most_attempts)
    for _, id in ipairs(candidates) do
      local state = live_state(id)
      if state and (most_attempts == 0 or state[1] < most_attempts) then
        order[id] = (9 - state[2]) .. id
        ids[#ids + 1] = id
      end
    end
  end
  add(redis.call('ZRANGE', READY, 0, 99), 0)
  add(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', text(now), 'LIMIT', 0, 100), 0)
  -- Messages that reached the maximum number of attempts are left out: a receive makes them dead
  -- letters.
  add(redis.call('ZRANGEBYSCORE', FLIGHT, '-inf', text(now), 'LIMIT', 0, 100), attempts)
  table.sort(ids, function(one, other) return order[one] < order[other] end)
end
for at = 1, math.min(most, #ids) do
  if not append(ids[at]) then
    break
  end
end
return reply
