-- count_due.lua: returns the number of due elements, the number of others, and the first due
-- element.
--
-- KEYS[1]  list: elements that a client of Redisson has moved because they were due, and elements
--          that were put back
-- KEYS[2]  sorted set: elements after an id, by their due times in milliseconds since 1970
-- Returns  {number of due elements, number of the others, the first due element or nothing}.
--          Nothing is returned for a first due element that is not an item of a delayed queue; a
--          take reports that as an error
--
-- Work: O(log n); read-only. Sent twice, it reads twice.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local ready, due = redis.call('LLEN', KEYS[1]), redis.call('ZCOUNT', KEYS[2], '-inf', now)
local first = redis.call('LINDEX', KEYS[1], 0)
if not first and due > 0 then
  local is_item, _, value = pcall(struct.unpack, 'Bc0Lc0', redis.call('ZRANGE', KEYS[2], 0, 0)[1])
  first = is_item and value
end
return {ready + due, redis.call('ZCARD', KEYS[2]) - due, first}
