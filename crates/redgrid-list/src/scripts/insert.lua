-- insert.lua: inserts values at an index, before the element there.
--
-- KEYS[1]  list
-- ARGV[1]  index, from 0
-- ARGV[2]  a random text: the first candidate for a placeholder that differs from all values and
--          elements
-- ARGV[3]  maximum number of elements to visit, approximately
-- ARGV[4]  1 to insert the last values first, if they need several steps
-- ARGV[5…] values, 500 at most
-- Returns  {number of inserted values, new number of elements}; {-1, number of elements} if the
--          list is shorter than the index
--
-- Work: O(index) for each value in the middle of the list, where fewer values are inserted at
-- higher indices; O(1) at the ends. While the script runs, the placeholder replaces the element at
-- the index. If the server refuses to insert, the element is restored. Only the first LINSERT can
-- be refused, so only the placeholder must be undone. Not to be sent twice: the values would be
-- inserted twice.
local length = redis.call('LLEN', KEYS[1])
local index, values = tonumber(ARGV[1]), #ARGV - 4
if index > length then
  return {-1, length}
elseif index == length then
  return {values, redis.call('RPUSH', KEYS[1], unpack(ARGV, 5))}
elseif index == 0 then
  local last_first = {}
  for i = #ARGV, 5, -1 do
    last_first[#last_first + 1] = ARGV[i]
  end
  return {values, redis.call('LPUSH', KEYS[1], unpack(last_first))}
end
local offset = 4
values = math.min(values, math.max(1, math.floor(tonumber(ARGV[3]) / index)))
if ARGV[4] == '1' then
  offset = #ARGV - values
end
local function occurs(text)
  for i = offset + 1, offset + values do
    if ARGV[i] == text then
      return true
    end
  end
  return redis.call('LPOS', KEYS[1], text, 'MAXLEN', index)
end
local placeholder = ARGV[2]
while occurs(placeholder) do
  placeholder = redis.sha1hex(placeholder)
end
local replaced = redis.call('LINDEX', KEYS[1], index)
redis.call('LSET', KEYS[1], index, placeholder)
for i = 1, values do
  local reply = redis.pcall('LINSERT', KEYS[1], 'BEFORE', placeholder, ARGV[offset + i])
  if type(reply) == 'table' then
    redis.call('LSET', KEYS[1], index + i - 1, replaced)
    return reply
  end
end
redis.call('LSET', KEYS[1], index + values, replaced)
return {values, length + values}
