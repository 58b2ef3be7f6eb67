-- look.lua: how messages are, for those who only look. Behind state.lua.
--
-- KEYS[1…10]  as KEYS[2…11] of queue.lua
-- ARGV[1]     what: `one`, `first` or `dead`
-- ARGV[2]     one: the message; first and dead: how many, at most 100
-- ARGV[3]     dead: those behind this number; `` for the first
-- Returns     for each message, flat: message, attempt, priority, pushed, place, until, reason, bytes. `place` is ready, delayed, flight or
--             dead; `until` when that ends, for the dead when they died, for those that are ready 0: milliseconds since 1970. `first` are those
--             that a receive would be given now, in that order, at most 4 MiB and one. What is over is not told, although it was not dropped yet
--
-- Work: O(log n) for each message; for `first` of 100 that are ready, that are due, and that were not settled in time. Writes nothing.
local BODIES, STATES, READY, DELAYED, FLIGHT = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ENDS, DEAD = KEYS[7], KEYS[10]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found, size = {}, 0
local function text(number)
  return string.format('%.0f', number)
end
-- What is kept of a message that is not over.
local function known(id)
  local packed = redis.call('HGET', STATES, id)
  local ends = tonumber(redis.call('ZSCORE', ENDS, id) or nil)
  local held = ends and ends <= now and tonumber(redis.call('ZSCORE', FLIGHT, id) or nil)
  if packed and (not ends or ends > now or (held and held > now)) then
    return read_state(packed)
  end
end
local function tell(id)
  local state = known(id)
  if not state then
    return true
  end
  size = size + redis.call('HSTRLEN', BODIES, id)
  if #found > 0 and size > 4194304 then
    return false
  end
  local where, till = 'ready', '0'
  if redis.call('ZSCORE', DEAD, id) then
    where, till = 'dead', text(state[7])
  else
    for name, key in pairs({delayed = DELAYED, flight = FLIGHT}) do
      local due = redis.call('ZSCORE', key, id)
      if due and tonumber(due) > now then
        where, till = name, due
      end
    end
  end
  local bytes = redis.call('HGET', BODIES, id) or ''
  for _, part in ipairs({id, state[1], state[2], text(state[4]), where, till, state[6], bytes}) do
    found[#found + 1] = part
  end
  return true
end

if ARGV[1] == 'one' then
  tell(ARGV[2])
  return found
end
local most, ids = math.min(tonumber(ARGV[2]), 100), {}
if ARGV[1] == 'dead' then
  local behind = ARGV[3] == '' and '-inf' or '(' .. ARGV[3]
  ids = redis.call('ZRANGEBYSCORE', DEAD, behind, '+inf', 'LIMIT', 0, most)
else
  local order, attempts = {}, tonumber(redis.call('HGET', KEYS[1], 'attempts') or nil) or 0
  local function add(found, most_attempts)
    for _, id in ipairs(found) do
      local state = known(id)
      if state and (most_attempts == 0 or state[1] < most_attempts) then
        order[id] = (9 - state[2]) .. id
        ids[#ids + 1] = id
      end
    end
  end
  add(redis.call('ZRANGE', READY, 0, 99), 0)
  add(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', text(now), 'LIMIT', 0, 100), 0)
  -- Those that were tried often enough will be dead.
  add(redis.call('ZRANGEBYSCORE', FLIGHT, '-inf', text(now), 'LIMIT', 0, 100), attempts)
  table.sort(ids, function(one, other) return order[one] < order[other] end)
end
for at = 1, math.min(most, #ids) do
  if not tell(ids[at]) then
    break
  end
end
return found
