-- receive.lua: give messages to those who ask, in their order. Behind queue.lua.
--
-- KEYS[1]   memory      string; packed {number, receipt, {message, asker, …}} of the client's last request; has a lifetime
-- ARGV[1]   not after   microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]   number      rises with each request of the client; one is under way at a time
-- ARGV[3]   lifetime    of the memory in milliseconds; longer than any copy of the request is sent
-- ARGV[4]   known       number of the client's last request that was answered: what one behind it was given, nobody has heard of
-- ARGV[5]   receipt     which no request had before
-- ARGV[6]   publish     PUBLISH or SPUBLISH
-- ARGV[7]   channel     on which those who wait are told
-- ARGV[8]   visibility  where the queue has none, in milliseconds
-- ARGV[9…]  for each asker: how many messages, and for how long nobody else is given them, in milliseconds; 0 as the queue says
-- Returns   {1, due, found, asker, message, attempt, priority, pushed, visibility, bytes, …}  times in milliseconds, `due` from now and
--                       -1 where nothing is; `found` in it 1 where more may be had at once
--           {-1, time}  too late: nothing is done; the server's time in microseconds
--
-- Work: O(log n) for each of at most 100 messages that are given, and of 100 each that are due, were not acknowledged in time, have
-- ended; at most 4 MiB and one message are given. Sent twice, it gives the same messages to the same askers.
if time[1] * 1000000 + time[2] > tonumber(ARGV[1]) then
  return {-1, text(time[1] * 1000000 + time[2])}
end
local known = redis.call('GET', KEYS[1])
local last = known and cmsgpack.unpack(known) or {0, '', {}}
local number = tonumber(ARGV[2])
local found = {}

local function give(asker, id, state, visibility)
  local bytes = redis.call('HGET', BODIES, id) or ''
  for _, part in ipairs({asker, id, state[1], state[2], text(state[4]), text(visibility), bytes}) do
    found[#found + 1] = part
  end
end

if last[1] > number then
  -- The client has left this request alone: there is nobody to give anything.
  return {1, '-1', '0'}
end
if last[1] == number then
  for at = 1, #last[3], 2 do
    local id = last[3][at]
    local state, until_ = load(id), redis.call('ZSCORE', FLIGHT, id)
    if state and until_ and state[3] == ARGV[5] then
      give(last[3][at + 1], id, state, math.max(tonumber(until_) - now, 0))
    end
  end
  return {1, '0', '0', unpack(found)}
end

-- A server without memory refuses what may need some, unless the script has written before: this needs none, and changes nothing.
redis.call('ZREM', READY, '')
if last[1] > tonumber(ARGV[4]) then
  -- Nobody has seen these: they were not tried, although their visibility may be over.
  for at = 1, #last[3], 2 do
    local id = last[3][at]
    local state = load(id)
    if state and state[3] == last[2] and redis.call('ZSCORE', FLIGHT, id) then
      state[1], state[3] = state[1] - 1, ''
      save(id, state)
      place(id, state, now)
    end
  end
end

local more = tidy()
local wanted = 0
for at = 9, #ARGV, 2 do
  wanted = wanted + tonumber(ARGV[at])
end
local ids = wanted > 0 and redis.call('ZRANGE', READY, 0, math.min(wanted, MOST) - 1) or {}
local taken, states, size, asker, left = {}, {}, 0, 1, tonumber(ARGV[9] or '0')
for _, id in ipairs(ids) do
  local state = load(id)
  if not state or (state[5] > 0 and state[5] <= now) then
    drop(id)
    count('ended')
    more = true
  else
    size = size + redis.call('HSTRLEN', BODIES, id)
    if #taken > 0 and size > 4194304 then
      more = true
      break
    end
    while left == 0 do
      asker = asker + 1
      left = tonumber(ARGV[7 + 2 * asker])
    end
    taken[#taken + 1], taken[#taken + 2] = id, asker
    states[id] = state
    left = left - 1
  end
end
-- What is given is remembered before it is: an answer that is lost is asked for again.
redis.call('SET', KEYS[1], cmsgpack.pack({number, ARGV[5], taken}), 'PX', ARGV[3])
for at = 1, #taken, 2 do
  local id = taken[at]
  local state, visibility = states[id], tonumber(ARGV[8 + 2 * taken[at + 1]])
  if visibility == 0 then
    visibility = settings.visibility > 0 and settings.visibility or tonumber(ARGV[8])
  end
  state[1], state[3] = state[1] + 1, ARGV[5]
  save(id, state)
  redis.call('ZADD', FLIGHT, text(now + visibility), id)
  redis.call('ZREM', READY, id)
  count(state[1] > 1 and 'redelivered' or 'delivered')
  give(taken[at + 1], id, state, visibility)
end
local due = close(ARGV[6], ARGV[7])
more = more or #ids == MOST
return {1, text(due), more and '1' or '0', unpack(found)}
