-- list.lua: returns a page of the messages of one group, without their values. Appended to
-- state.lua.
--
-- KEYS[1]  bodies  hash
-- KEYS[2]  states  hash
-- KEYS[3]  group   sorted set; ready, delayed, flight or dead: see queue.lua
-- ARGV[1]  state   `ready`, `delayed`, `flight` or `dead`: that of the group
-- ARGV[2]  first   index of the first message, from 0
-- Returns  {total, message, attempt, priority, pushed, state, until, reason, size, headers, …}
--                  as text; `total` is the number of messages of the group; `until` is as in
--                  browse.lua; `size` is that of the stored bytes; `headers` is the beginning of
--                  these bytes, up to the value, or '' if it was not read
--
-- Work: O(log n), and at most 100 messages. Messages of more than 16 KiB are not read, and headers
-- of more than 4 KiB are not returned. Writes nothing.
local BODIES, STATES, GROUP = KEYS[1], KEYS[2], KEYS[3]
local function headers_of(bytes)
  if string.byte(bytes, 1) == 0 then
    return '\0'
  end
  local a, b, c, d = string.byte(bytes, 2, 5)
  local size = d and ((a * 256 + b) * 256 + c) * 256 + d
  return size and size <= 4096 and string.sub(bytes, 1, 5 + size) or ''
end

local first = tonumber(ARGV[2])
local reply = {tostring(redis.call('ZCARD', GROUP))}
local found = redis.call('ZRANGE', GROUP, ARGV[2], string.format('%.0f', first + 99), 'WITHSCORES')
for at = 1, #found, 2 do
  local id, until_ = found[at], found[at + 1]
  local packed = redis.call('HGET', STATES, id)
  local state = packed and read_state(packed)
  if state then
    if ARGV[1] == 'ready' then
      until_ = '0'
    elseif ARGV[1] == 'dead' then
      until_ = string.format('%.0f', state[7])
    end
    local size = redis.call('HSTRLEN', BODIES, id)
    local headers = size > 0 and size <= 16384 and headers_of(redis.call('HGET', BODIES, id)) or ''
    local pushed = string.format('%.0f', state[4])
    local fields = {id, state[1], state[2], pushed, ARGV[1], until_, state[6], size, headers}
    for _, field in ipairs(fields) do
      reply[#reply + 1] = tostring(field)
    end
  end
end
return reply
