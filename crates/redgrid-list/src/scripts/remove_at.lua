-- remove_at.lua: removes the element at an index.
--
-- KEYS[1]  list
-- ARGV[1]  index, from 0
-- ARGV[2]  a random text: the first candidate for a placeholder that no visited element equals
-- ARGV[3]  1 to return the element
-- Returns  {1, the element or nothing}; {0, number of elements} if the list has no such index
--
-- Work: O(distance from the nearer end), O(1) at the ends. If a visited element equals the element
-- at the index, the placeholder replaces the latter; it is restored if the server refuses the
-- removal. Otherwise the removal is the only write, and even a server out of memory allows it. Not
-- to be sent twice: another element would be removed.
local length = redis.call('LLEN', KEYS[1])
local index = tonumber(ARGV[1])
local from_end = length - 1 - index
if from_end < 0 then
  return {0, length}
end
local element
if index == 0 then
  element = redis.call('LPOP', KEYS[1])
elseif from_end == 0 then
  element = redis.call('RPOP', KEYS[1])
else
  local from_front = index <= from_end
  local function occurs(text)
    if from_front then
      return redis.call('LPOS', KEYS[1], text, 'MAXLEN', index)
    end
    return redis.call('LPOS', KEYS[1], text, 'RANK', -1, 'MAXLEN', from_end)
  end
  element = redis.call('LINDEX', KEYS[1], index)
  local target = element
  if occurs(element) then
    target = ARGV[2]
    while occurs(target) do
      target = redis.sha1hex(target)
    end
    redis.call('LSET', KEYS[1], index, target)
  end
  local reply = redis.pcall('LREM', KEYS[1], from_front and 1 or -1, target)
  if type(reply) == 'table' then
    if target ~= element then
      redis.call('LSET', KEYS[1], index, element)
    end
    return reply
  end
end
return {1, ARGV[3] == '1' and element}
