-- counts.lua: returns the number of messages in each state, how long the oldest one is ready, and
-- the totals. Appended to state.lua.
--
-- KEYS[1…10]  as KEYS[2…11] of queue.lua
-- Returns     {ready, delayed, flight, dead, overdue, oldest, now, paused, pushed, delivered,
--             redelivered, acknowledged, returned, dead, ended}: first the current states, where
--             `overdue` are those of the ready messages that were not settled within their
--             visibility, and are not moved yet; `oldest` is since when the oldest ready message is
--             ready, and 0 without one; `paused` is since when the queue is paused, and 0 if it is
--             not. These times are in milliseconds since 1970, as is `now`. Then follow totals
--             since the queue was created
--
-- The oldest message is searched for among the first ten ready messages of each priority, and the
-- first ones that are due or overdue.
--
-- Work: O(log n), and the states of at most 100 messages. Writes nothing.
local STATES, READY, DELAYED, FLIGHT, DEAD = KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[10]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local oldest = 0
local function include(since)
  if since and since <= now and (oldest == 0 or since < oldest) then
    oldest = since
  end
end
local due = {}
for at, key in ipairs({DELAYED, FLIGHT}) do
  due[at] = redis.call('ZCOUNT', key, '-inf', string.format('%.0f', now))
  include(tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]))
end
for priority = 0, 9 do
  local ids = redis.call('ZRANGEBYSCORE', READY, priority, priority, 'LIMIT', 0, 10)
  for _, packed in ipairs(#ids > 0 and redis.call('HMGET', STATES, unpack(ids)) or {}) do
    local state = packed and read_state(packed)
    include(state and (tonumber(state[6]) or state[4]))
  end
end
local reply = {
  redis.call('ZCARD', READY) + due[1] + due[2],
  redis.call('ZCARD', DELAYED) - due[1],
  redis.call('ZCARD', FLIGHT) - due[2],
  redis.call('ZCARD', DEAD),
  due[2],
  oldest,
  now,
  tonumber(redis.call('HGET', KEYS[1], 'paused') or nil) or 0,
}
for _, what in ipairs({'pushed', 'delivered', 'redelivered', 'acknowledged', 'returned', 'dead', 'ended'}) do
  reply[#reply + 1] = tonumber(redis.call('HGET', KEYS[1], 'count_' .. what) or '0')
end
return reply
