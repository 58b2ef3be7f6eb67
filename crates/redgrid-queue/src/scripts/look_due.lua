-- look_due.lua: what is due, and how much there is.
--
-- KEYS[1]  list: what a client of Redisson has found due, and what was put back
-- KEYS[2]  sorted set: elements behind an id, by when they are due, in milliseconds since 1970
-- Returns  {how many are due, how many are not, the first that is due or nothing: where it is no item as well, which who takes is told}
--
-- Work: O(log n); only reads. Sent twice, it looks twice.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local ready, due = redis.call('LLEN', KEYS[1]), redis.call('ZCOUNT', KEYS[2], '-inf', now)
local first = redis.call('LINDEX', KEYS[1], 0)
if not first and due > 0 then
  local is_item, _, value = pcall(struct.unpack, 'Bc0Lc0', redis.call('ZRANGE', KEYS[2], 0, 0)[1])
  first = is_item and value
end
return {ready + due, redis.call('ZCARD', KEYS[2]) - due, first}
