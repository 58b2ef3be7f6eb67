-- deliver.lua: selects the messages that a receive delivers. Appended to state.lua. KEYS and ARGV
-- are those of receive.lua.

-- Reads the first `most` ready messages: at most 100, and about 4 MiB. `visibility` is the queue's
-- setting, if it has one. Returns a delivery, with these fields:
--   ids      the messages
--   taken    message, waiter, …
--   states   message, its new state, …
--   flight   the end of its visibility, message, …
--   reply    the reply of receive.lua, without `due`
--   again    how many messages were delivered before
--   due      the first end of a visibility; math.huge without messages
-- If some of the messages have expired or cannot be read, returns nil and these messages.
local function select_messages(now, most, visibility)
  local BODIES, STATES, READY = KEYS[3], KEYS[4], KEYS[5]
  local ids = most > 0 and redis.call('ZRANGE', READY, 0, math.min(most, 100) - 1) or {}
  local taken, states, flight, reply, again, due = {}, {}, {}, {1, -1, #ids == 100 and '1' or '0'}, 0, math.huge
  if #ids == 0 then
    return {ids = ids, taken = taken, reply = reply, again = again, due = due}
  end
  local packed = redis.call('HMGET', STATES, unpack(ids))
  local lost, size, waiter, left = {}, 0, 0, 0
  for n, id in ipairs(ids) do
    local state = packed[n] and read_state(packed[n])
    if not state or (state[5] > 0 and state[5] <= now) then
      lost[#lost + 1] = id
    elseif #lost == 0 then
      size = size + (#ids > 1 and redis.call('HSTRLEN', BODIES, id) or 0)
      if n > 1 and size > 4194304 then
        ids, reply[3] = {unpack(ids, 1, n - 1)}, '1'
        break
      end
      while left == 0 do
        waiter = waiter + 1
        left = tonumber(ARGV[7 + 2 * waiter])
      end
      left = left - 1
      local hidden = tonumber(ARGV[8 + 2 * waiter])
      if hidden == 0 then
        hidden = visibility or tonumber(ARGV[8])
      end
      again, due = again + math.min(state[1], 1), math.min(due, now + hidden)
      state[1], state[3] = state[1] + 1, ARGV[5]
      local at = 2 * n - 1
      taken[at], taken[at + 1] = id, waiter
      states[at], states[at + 1] = id, cmsgpack.pack(state)
      flight[at], flight[at + 1] = now + hidden, id
      at = 7 * n - 3
      reply[at], reply[at + 1], reply[at + 2], reply[at + 3] = waiter, id, state[1], state[2]
      reply[at + 4], reply[at + 5] = state[4], hidden
    end
  end
  if #lost > 0 then
    return nil, lost
  end
  local bodies = redis.call('HMGET', BODIES, unpack(ids))
  for n = 1, #ids do
    reply[7 * n + 3] = bodies[n] or ''
  end
  return {ids = ids, taken = taken, states = states, flight = flight, reply = reply, again = again, due = due}
end
