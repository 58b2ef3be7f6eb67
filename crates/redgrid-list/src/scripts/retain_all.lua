-- retain_all.lua: every element that is none of some values goes, from the end on.
--
-- KEYS[1]  list
-- ARGV[1]  the index behind those that are still to be looked at; nothing at first
-- ARGV[2]  a text of chance, for a mark that no element on the way is equal to
-- ARGV[3]  how many elements are looked at, about
-- ARGV[4]  how many bytes, about
-- ARGV[5]… values that stay
-- Returns  {how many went, the index behind those that are still to be looked at}
--
-- Work: O(the way from the nearer end, and the values). What goes is a mark for a moment, and it is put back where the server refuses. Not
-- to be sent twice: what others have added in between would go.
local stays = {}
for i = 5, #ARGV do
  stays[ARGV[i]] = true
end
local length = redis.call('LLEN', KEYS[1])
local stop = math.min(length, tonumber(ARGV[1]) or length)
local at, bytes, goes = stop, 0, {}
while at > 0 and stop - at < tonumber(ARGV[3]) and bytes < tonumber(ARGV[4]) do
  local from = math.max(0, at - 100)
  for i, element in ipairs(redis.call('LRANGE', KEYS[1], from, at - 1)) do
    bytes = bytes + #element
    if not stays[element] then
      goes[#goes + 1] = {from + i - 1, element}
    end
  end
  at = from
end
if #goes == 0 then
  return {0, at}
end
local from_front = stop <= length - at
local function is_taken(mark)
  if from_front then
    return redis.call('LPOS', KEYS[1], mark, 'MAXLEN', stop)
  end
  return redis.call('LPOS', KEYS[1], mark, 'RANK', -1, 'MAXLEN', length - at)
end
local mark = ARGV[2]
while is_taken(mark) do
  mark = redis.sha1hex(mark)
end
for _, one in ipairs(goes) do
  redis.call('LSET', KEYS[1], one[1], mark)
end
local done = redis.pcall('LREM', KEYS[1], from_front and #goes or -#goes, mark)
if type(done) == 'table' then
  for _, one in ipairs(goes) do
    redis.call('LSET', KEYS[1], one[1], one[2])
  end
  return done
end
return {#goes, at}
