-- fast_change.lua: executes a batch of plain pushes and of acknowledgements on the fast path, if
-- queue.lua allows it and each acknowledgement succeeds. Otherwise it changes nothing, and the
-- scripts after it execute the batch: dedup.lua comes next. KEYS, ARGV and replies are those of
-- change.lua.
--
-- A plain push has no delay, no lifetime and no deduplication id.
--
-- Work: O(log n) for each change, in one command for each key. Sent twice, it acts once: it stores
-- the memory of dedup.lua, and leaves copies to that script.

-- Returns the reply; nil if nothing is changed.
local function change_fast()
  local MEMORY, QUEUE, BODIES, STATES, READY = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
  local FLIGHT, ENDS, DEAD = KEYS[7], KEYS[8], KEYS[11]
  local pushes, acked, at = 0, {}, 6
  while ARGV[at] do
    if ARGV[at] == 'push' and ARGV[at + 3] == '' and ARGV[at + 4] == '' and ARGV[at + 5] == '' then
      pushes, at = pushes + 1, at + 7
    elseif ARGV[at] == 'ack' then
      acked[#acked + 1] = ARGV[at + 1]
      at = at + 3
    else
      return nil
    end
  end

  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local now = math.floor(micros / 1000)
  local set
  if pushes == 0 then
    set = redis.call('HMGET', QUEUE, 'fast_until', 'count_acknowledged')
  else
    set = redis.call('HMGET', QUEUE, 'fast_until', 'count_acknowledged', 'plain', 'announced', 'seq', 'count_pushed',
      'paused')
  end
  local fast_until = tonumber(set[1]) or 0
  -- A push to a paused queue wakes no receiver.
  local is_allowed = pushes == 0 or (set[3] == '1' and not set[7])
  -- A time that is more than a second ahead was stored before the clock was set back.
  if now >= fast_until or fast_until > now + 1000 or micros > tonumber(ARGV[1])
    or not is_allowed then
    return nil
  end

  local replies, ids, bodies, states, ready, first_id, packed, done, with_end = {}, nil
  if pushes > 0 then
    ids, bodies, states, ready = {}, {}, {}, {}
    first_id = math.max((tonumber(set[5]) or 0) + 1, micros)
  end
  if #acked > 0 then
    packed, done, with_end = redis.call('HMGET', STATES, unpack(acked)), {}, {}
  end
  local acks = 0
  at = 6
  while ARGV[at] do
    if ARGV[at] == 'push' then
      local id, priority, to = string.format('%016.0f', first_id + #ids), tonumber(ARGV[at + 2]), 2 * #ids + 1
      replies[#replies + 1], ids[#ids + 1] = 'new ' .. id, id
      bodies[to], bodies[to + 1] = id, ARGV[at + 1]
      states[to], states[to + 1] = id, cmsgpack.pack({0, priority, '', now, 0, '', 0, 0})
      ready[to], ready[to + 1] = 9 - priority, id
      at = at + 7
    else
      acks = acks + 1
      local id, is_read, state = acked[acks], pcall(cmsgpack.unpack, packed[acks])
      if not is_read or type(state) ~= 'table' or state[3] ~= ARGV[at + 2] or state[3] == '' or done[id] then
        return nil
      end
      replies[#replies + 1], done[id] = 'done', true
      if state[5] + state[7] > 0 then
        with_end[#with_end + 1] = id
      end
      at = at + 3
    end
  end

  -- Fails if the server is out of memory.
  local known = redis.pcall('SET', MEMORY, ARGV[2] .. ' ' .. cmsgpack.pack(replies), 'PX', ARGV[3], 'GET')
  if type(known) == 'table' then
    return nil
  end
  local function try(...)
    local reply = redis.pcall(...)
    return type(reply) == 'number' and reply
  end
  local is_new = not known or tonumber(string.match(known, '^%d+')) < tonumber(ARGV[2])
  -- Fails if a key has another type.
  local is_added = is_new and (pushes == 0 or (try('HSET', BODIES, unpack(bodies))
    and try('HSET', STATES, unpack(states)) and try('ZADD', READY, unpack(ready))))
  if not is_added then
    if is_new then
      try('HDEL', STATES, unpack(ids))
      try('HDEL', BODIES, unpack(ids))
    end
    if known then
      redis.call('SET', MEMORY, known, 'PX', ARGV[3])
    else
      redis.call('DEL', MEMORY)
    end
    return nil
  end

  local fields = {}
  if pushes > 0 then
    local lives = redis.call('PTTL', QUEUE)
    if lives > 0 then
      for _, key in ipairs({BODIES, STATES, READY}) do
        redis.call('PEXPIRE', key, lives)
      end
    end
    fields = {'seq', ids[pushes], 'count_pushed', (tonumber(set[6]) or 0) + pushes}
    if set[4] ~= '1' then
      fields[5], fields[6] = 'announced', '1'
      redis.pcall(ARGV[4], ARGV[5], '0')
    end
  end
  if acks > 0 then
    if try('ZREM', FLIGHT, unpack(acked)) ~= acks then
      -- Some were not settled within their visibility, and are ready or dead letters.
      try('ZREM', READY, unpack(acked))
      try('ZREM', DEAD, unpack(acked))
    end
    if #with_end > 0 then
      try('ZREM', ENDS, unpack(with_end))
    end
    try('HDEL', BODIES, unpack(acked))
    try('HDEL', STATES, unpack(acked))
    fields[#fields + 1], fields[#fields + 2] = 'count_acknowledged', (tonumber(set[2]) or 0) + acks
  end
  redis.call('HSET', QUEUE, unpack(fields))
  return {1, replies}
end
local changed = change_fast()
if changed then
  return changed
end
