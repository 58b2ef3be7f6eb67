-- take_due.lua: what is due, for those of a process who wait.
--
-- KEYS[2]  list: what a client of Redisson has found due, and what was put back
-- KEYS[3]  sorted set: elements behind an id, by when they are due, in milliseconds since 1970
-- KEYS[4]  list of Redisson's: what its clients have delayed
-- ARGV[4]  how many at most
-- ARGV[5]  how many bytes, about
-- ARGV[6]  how many elements of Redisson's list may be passed, about
-- Returns  {elements, 0}         there are more
--          {elements, n} n > 0   the next is due in so many milliseconds
--          {elements, -1}        nothing is delayed
--
-- Work: O(log n) for each, and O(n of Redisson's list) where its clients have delayed something: of a long list fewer are taken. Sent twice, it
-- acts once: that nothing was found is remembered as well, or a late copy would take for nobody. What can not be remembered is put back: its answer
-- might be lost. An item that is none is taken by nobody; what is in front of it is, and where there is nothing it is told.
local most, room = tonumber(ARGV[4]), tonumber(ARGV[5])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local listed = redis.call('LLEN', KEYS[4])
local limit = most
if listed > 0 then
  limit = math.min(most, math.max(1, math.floor(tonumber(ARGV[6]) / listed)))
end
-- All that can fail by what is stored is read before anything is written.
local ready = redis.call('LLEN', KEYS[2])
local values, members, bytes = {}, {}, 0
local taken, from_list = {}, 0
if ready < most then
  for _, member in ipairs(redis.call('ZRANGE', KEYS[3], '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', 0, math.min(limit, most - ready))) do
    local is_item, _, value = pcall(struct.unpack, 'Bc0Lc0', member)
    if not is_item and ready == 0 and #values == 0 then
      return redis.error_reply('ERR an item of the delayed queue is none: Bc0Lc0 of struct is expected')
    end
    if not is_item or bytes >= room then
      break
    end
    bytes = bytes + #value
    values[#values + 1], members[#members + 1] = value, member
  end
end
bytes = 0
while from_list < math.min(ready, most) and bytes < room do
  local one = redis.call('LPOP', KEYS[2])
  from_list = from_list + 1
  taken[from_list] = one
  bytes = bytes + #one
end
local function back(told)
  for at = from_list, 1, -1 do
    redis.call('LPUSH', KEYS[2], taken[at])
  end
  return type(told) == 'table' and told or redis.error_reply(tostring(told))
end
local scores = {}
if from_list == ready and #members > 0 then
  scores = redis.pcall('ZMSCORE', KEYS[3], unpack(members))
  local gone = scores.err and scores or redis.pcall('ZREM', KEYS[3], unpack(members))
  if type(gone) == 'table' then
    return back(gone)
  end
  for at, value in ipairs(values) do
    taken[#taken + 1] = value
    if listed > 0 then
      -- For its clients to see; who may not write it takes all the same.
      redis.pcall('LREM', KEYS[4], 1, members[at])
    end
  end
end
local hint = -1
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
if first[2] then
  hint = math.max(0, tonumber(first[2]) - now)
end
if from_list < ready then
  hint = 0
end
local done, told = pcall(answer, {taken, hint})
if done then
  return told
end
for at = 1, #taken - from_list do
  redis.call('ZADD', KEYS[3], scores[at], members[at])
end
return back(told)
