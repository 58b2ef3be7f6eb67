-- counts.lua: returns the number of messages in each state, and the totals.
--
-- KEYS[1…10]  as KEYS[2…11] of queue.lua
-- Returns     {ready, delayed, flight, dead, pushed, delivered, redelivered, acknowledged,
--             returned, dead, ended}: first the current states, then totals since the queue was
--             created
--
-- Work: O(log n). Writes nothing.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local delayed, flight = redis.call('ZCOUNT', KEYS[5], '-inf', now), redis.call('ZCOUNT', KEYS[6], '-inf', now)
local reply = {
  redis.call('ZCARD', KEYS[4]) + delayed + flight,
  redis.call('ZCARD', KEYS[5]) - delayed,
  redis.call('ZCARD', KEYS[6]) - flight,
  redis.call('ZCARD', KEYS[10]),
}
for _, what in ipairs({'pushed', 'delivered', 'redelivered', 'acknowledged', 'returned', 'dead', 'ended'}) do
  reply[#reply + 1] = tonumber(redis.call('HGET', KEYS[1], 'count_' .. what) or '0')
end
return reply
