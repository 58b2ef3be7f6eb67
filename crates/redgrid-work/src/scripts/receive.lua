-- receive.lua: delivers messages to the waiters of a client, in their order. Appended to state.lua,
-- deliver.lua, fast_receive.lua and queue.lua.
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

local is_more, requested = process_due(), 0
for at = 9, #ARGV, 2 do
  requested = requested + tonumber(ARGV[at])
end
local most, visibility = settings.paused == 0 and requested or 0, settings.visibility > 0 and settings.visibility
local delivery, lost = select_messages(now, most, visibility)
if not delivery then
  drop(lost)
  count('ended', #lost)
  delivery, is_more = select_messages(now, most, visibility) or select_messages(now, 0), true
end
-- The messages are stored before they are delivered: a retransmission after a lost reply returns
-- the same ones.
redis.call('SET', KEYS[1], cmsgpack.pack({number, ARGV[5], delivery.taken}), 'PX', ARGV[3])
local ids, reply = delivery.ids, delivery.reply
if #ids > 0 then
  redis.call('ZADD', FLIGHT, unpack(delivery.flight))
  redis.call('HSET', STATES, unpack(delivery.states))
  remove(READY, unpack(ids))
  count('delivered', #ids - delivery.again)
  count('redelivered', delivery.again)
end
if is_more then
  reply[3] = '1'
end
if #ids < requested and reply[3] == '0' and settings.announced > 0 then
  redis.call('HDEL', QUEUE, 'announced')
end
reply[2] = finish_change(ARGV[6], ARGV[7])
return reply
