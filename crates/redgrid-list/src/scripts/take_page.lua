-- take_page.lua: the next page for whoever of several comes.
--
-- KEYS[1]  list
-- KEYS[2]  cursor: the index of the next page, -1 behind the last; Redisson's
-- ARGV[1]  how many elements
-- Returns  {the index of the page, or -1 behind the last; its elements}
--
-- Work: O(the way from the nearer end, and the page). Not to be sent twice: the first's page would be nobody's.
local at = tonumber(redis.call('GET', KEYS[2]) or 0)
if at < 0 then
  return {-1, {}}
end
local page = redis.call('LRANGE', KEYS[1], at, at + ARGV[1] - 1)
local next = at + ARGV[1]
if next > redis.call('LLEN', KEYS[1]) then
  next = -1
end
-- An hour, as Redisson has it.
redis.call('SETEX', KEYS[2], 3600, string.format('%.0f', next))
return {at, page}
