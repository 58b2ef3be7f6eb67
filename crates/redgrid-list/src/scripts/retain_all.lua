-- retain_all.lua: removes every element that equals none of some values, starting at the end.
--
-- KEYS[1]  list
-- ARGV[1]  the index after the elements still to be checked; empty in the first step
-- ARGV[2]  a random text: the first candidate for a placeholder that no visited element equals
-- ARGV[3]  the number of elements to check, approximately
-- ARGV[4]  the number of bytes to check, approximately
-- ARGV[5…] values to retain
-- Returns  {number of removed elements, the index after the elements still to be checked}
--
-- Work: O(distance from the nearer end + elements checked + values). The placeholder replaces the
-- elements to remove; they are restored if the server refuses the removal. Not to be sent twice:
-- elements that others have added in between would be removed.
local retained = {}
for i = 5, #ARGV do
  retained[ARGV[i]] = true
end
local length = redis.call('LLEN', KEYS[1])
local stop = math.min(length, tonumber(ARGV[1]) or length)
local at, bytes, removed = stop, 0, {}
while at > 0 and stop - at < tonumber(ARGV[3]) and bytes < tonumber(ARGV[4]) do
  local from = math.max(0, at - 100)
  for i, element in ipairs(redis.call('LRANGE', KEYS[1], from, at - 1)) do
    bytes = bytes + #element
    if not retained[element] then
      removed[#removed + 1] = {from + i - 1, element}
    end
  end
  at = from
end
if #removed == 0 then
  return {0, at}
end
local from_front = stop <= length - at
local function occurs(text)
  if from_front then
    return redis.call('LPOS', KEYS[1], text, 'MAXLEN', stop)
  end
  return redis.call('LPOS', KEYS[1], text, 'RANK', -1, 'MAXLEN', length - at)
end
local placeholder = ARGV[2]
while occurs(placeholder) do
  placeholder = redis.sha1hex(placeholder)
end
for _, entry in ipairs(removed) do
  redis.call('LSET', KEYS[1], entry[1], placeholder)
end
local reply = redis.pcall('LREM', KEYS[1], from_front and #removed or -#removed, placeholder)
if type(reply) == 'table' then
  for _, entry in ipairs(removed) do
    redis.call('LSET', KEYS[1], entry[1], entry[2])
  end
  return reply
end
return {#removed, at}
