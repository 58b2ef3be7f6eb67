-- receive.lua: delivers messages to the waiters of a client, in their order. Appended to queue.lua.
--
-- KEYS[1]   memory      string; packed {number, receipt, {message, waiter, …}} of the client's last
--                       request; has a lifetime
-- ARGV[1]   not after   microseconds since 1970 by this server's clock; later, nothing is done
-- ARGV[2]   number      rises with each request of the client; one is in flight at a time
-- ARGV[3]   lifetime    of the memory in milliseconds; no retransmission is sent after that
-- ARGV[4]   known       number of the client's last answered request. No caller has seen the
--                       messages of later requests
-- ARGV[5]   receipt     a new one, which no earlier request had
-- ARGV[6]   publish     PUBLISH or SPUBLISH
-- ARGV[7]   channel     that wakes waiters
-- ARGV[8]   visibility  in milliseconds, if the queue has no setting
-- ARGV[9…]  for each waiter: the maximum number of messages, and their visibility in milliseconds;
--           0 means the queue's setting
-- Returns   {1, due, more, waiter, message, attempt, priority, pushed, visibility, bytes, …}
--                          times in milliseconds; `due` from now, -1 if no message is due later;
--                          `more` is 1 if more messages may be available now
--           {-1, time}     too late: nothing is done; the server's time in microseconds
--
-- A paused queue delivers nothing, but messages that are due are moved as usual. A retransmission
-- returns what was delivered before the pause.
--
-- Work: O(log n) for each delivered message (at most 100, about 4 MiB). In addition, O(log n) for
-- at most 100 messages each that are due, that were not settled in time, and that have expired.
-- Sent twice, it returns the same messages for the same waiters.
if time[1] * 1000000 + time[2] > tonumber(ARGV[1]) then
  return {-1, text(time[1] * 1000000 + time[2])}
end
local known = redis.call('GET', KEYS[1])
local last = known and cmsgpack.unpack(known) or {0, '', {}}
local number = tonumber(ARGV[2])
local found = {}

local function give(waiter, id, state, visibility)
  local bytes = redis.call('HGET', BODIES, id) or ''
  for _, part in ipairs({waiter, id, state[1], state[2], text(state[4]), text(visibility), bytes}) do
    found[#found + 1] = part
  end
end

if last[1] > number then
  -- The client has abandoned this request: no caller would receive its messages.
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

-- A server that is out of memory rejects writes that may need memory, unless the script has already
-- written. This write needs no memory, and changes nothing.
redis.call('ZREM', READY, '')
if last[1] > tonumber(ARGV[4]) then
  -- No caller has seen these messages. So this delivery does not count as an attempt, even if the
  -- visibility has ended.
  for at = 1, #last[3], 2 do
    local id = last[3][at]
    local state = load(id)
    if state and state[3] == last[2] and redis.call('ZSCORE', FLIGHT, id) then
      state[1], state[3] = state[1] - 1, ''
      save(id, state)
      enqueue(id, state, now)
    end
  end
end

local more = process_due()
local requested = 0
for at = 9, #ARGV, 2 do
  requested = requested + tonumber(ARGV[at])
end
local ids = {}
if requested > 0 and settings.paused == 0 then
  ids = redis.call('ZRANGE', READY, 0, math.min(requested, MOST) - 1)
end
local taken, states, size, waiter, left = {}, {}, 0, 1, tonumber(ARGV[9] or '0')
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
      waiter = waiter + 1
      left = tonumber(ARGV[7 + 2 * waiter])
    end
    taken[#taken + 1], taken[#taken + 2] = id, waiter
    states[id] = state
    left = left - 1
  end
end
-- The messages are stored before they are delivered: a retransmission after a lost reply returns
-- the same ones.
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
local due = finish_change(ARGV[6], ARGV[7])
more = more or #ids == MOST
return {1, text(due), more and '1' or '0', unpack(found)}
