-- fast_receive.lua: delivers ready messages on the fast path, if queue.lua allows it and nothing is
-- due. Otherwise it changes nothing, and the scripts after it deliver messages. Appended to
-- state.lua and deliver.lua. KEYS, ARGV and replies are those of receive.lua.
--
-- Work: O(log n) for each delivered message, in one command for each key, and O(1) for the size of
-- each of several messages. Sent twice, it returns nothing the second time: it stores the memory of
-- receive.lua, and leaves copies to that script.

-- Returns the reply; nil if nothing is changed.
local function receive_fast()
  local MEMORY, QUEUE, STATES, READY, FLIGHT = KEYS[1], KEYS[2], KEYS[4], KEYS[5], KEYS[7]
  local time, number, requested = redis.call('TIME'), tonumber(ARGV[2]), 0
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local set = redis.call('HMGET', QUEUE, 'fast_until', 'next_due', 'visibility', 'count_delivered', 'paused')
  local fast_until, next_due = tonumber(set[1]) or 0, tonumber(set[2]) or math.huge
  -- A time that is more than a second ahead was stored before the clock was set back.
  if now >= fast_until or fast_until > now + 1000 or now >= next_due or set[5]
    or time[1] * 1000000 + time[2] > tonumber(ARGV[1]) then
    return nil
  end
  for at = 9, #ARGV, 2 do
    requested = requested + tonumber(ARGV[at])
  end
  local delivery = select_messages(now, requested, tonumber(set[3]))
  if not delivery then
    return nil
  end

  -- Fails if the server is out of memory.
  local memory = cmsgpack.pack({number, ARGV[5], delivery.taken})
  local known = redis.pcall('SET', MEMORY, memory, 'PX', ARGV[3], 'GET')
  if type(known) == 'table' then
    return nil
  end
  local last, ids = known and cmsgpack.unpack(known)[1] or 0, delivery.ids
  -- ZADD fails if the key has another type.
  if last >= number or last > tonumber(ARGV[4])
    or (#ids > 0 and type(redis.pcall('ZADD', FLIGHT, unpack(delivery.flight))) == 'table') then
    if known then
      redis.call('SET', MEMORY, known, 'PX', ARGV[3])
    else
      redis.call('DEL', MEMORY)
    end
    return nil
  end

  local due = math.min(next_due, delivery.due)
  if #ids < requested and delivery.reply[3] == '0' then
    redis.call('HDEL', QUEUE, 'announced')
  end
  if #ids > 0 then
    redis.call('HSET', STATES, unpack(delivery.states))
    redis.call('ZREM', READY, unpack(ids))
    local fields = {'count_delivered', (tonumber(set[4]) or 0) + #ids - delivery.again}
    if due < next_due then
      fields[3], fields[4] = 'next_due', due
      redis.pcall(ARGV[6], ARGV[7], string.format('%.0f', due - now))
    end
    redis.call('HSET', QUEUE, unpack(fields))
    if delivery.again > 0 then
      redis.call('HINCRBY', QUEUE, 'count_redelivered', delivery.again)
    end
    local lives = redis.call('PTTL', QUEUE)
    if lives > 0 then
      redis.call('PEXPIRE', FLIGHT, lives)
    end
  end
  delivery.reply[2] = due < math.huge and due - now or -1
  return delivery.reply
end
local received = receive_fast()
if received then
  return received
end
