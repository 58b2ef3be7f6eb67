-- look.lua: how messages are, for those who only look.
--
-- KEYS[1…10]  as KEYS[2…11] of queue.lua
-- ARGV[1]     what: `one`, `first` or `dead`
-- ARGV[2]     one: the message; first and dead: how many, at most 100
-- ARGV[3]     dead: those behind this number; `` for the first
-- Returns     for each message, flat: message, attempt, priority, pushed, place, until, reason, bytes. `place` is ready, delayed, flight or
--             dead; `until` when that ends, for the dead when they died, for those that are ready 0: milliseconds since 1970. `first` are those
--             that a receive would be given now, in that order, at most 4 MiB and one
--
-- Work: O(log n) for each message. Writes nothing.
local BODIES, STATES, READY, DELAYED, FLIGHT, DEAD = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[10]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found, size = {}, 0
local function text(number)
  return string.format('%.0f', number)
end
local function tell(id)
  local packed = redis.call('HGET', STATES, id)
  if not packed then
    return true
  end
  size = size + redis.call('HSTRLEN', BODIES, id)
  if #found > 0 and size > 4194304 then
    return false
  end
  local state = cmsgpack.unpack(packed)
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
  local order = {}
  local function add(id)
    local packed = redis.call('HGET', STATES, id)
    if packed then
      order[id] = (9 - cmsgpack.unpack(packed)[2]) .. id
      ids[#ids + 1] = id
    end
  end
  for _, id in ipairs(redis.call('ZRANGE', READY, 0, most - 1)) do
    add(id)
  end
  for _, key in ipairs({DELAYED, FLIGHT}) do
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', text(now), 'LIMIT', 0, most)) do
      add(id)
    end
  end
  table.sort(ids, function(one, other) return order[one] < order[other] end)
end
for at = 1, math.min(most, #ids) do
  if not tell(ids[at]) then
    break
  end
end
return found
