-- take_page.lua: takes the next page of a stream that several readers share. Appended to
-- cursor.lua.
--
-- KEYS[1]  list
-- KEYS[2]  cursor of Redisson: the index of the next page, -1 after the last page
-- ARGV[1]  the number of elements
-- Returns  {the index of the page, or -1 after the last page; its elements}
--
-- Work: O(distance from the nearer end + elements of the page). Not to be sent twice: the page of
-- the first copy would be lost.
local index, refusal = read_cursor(KEYS[2])
if refusal then
  return refusal
elseif index < 0 then
  return {-1, {}}
end
local page = redis.call('LRANGE', KEYS[1], index, index + ARGV[1] - 1)
local next_index = index + ARGV[1]
if next_index > redis.call('LLEN', KEYS[1]) then
  next_index = -1
end
-- The lifetime is one hour, as in Redisson.
redis.call('SETEX', KEYS[2], 3600, string.format('%.0f', next_index))
return {index, page}
