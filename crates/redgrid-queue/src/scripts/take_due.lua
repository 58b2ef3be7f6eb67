-- take_due.lua: takes due elements of a delayed queue, for the waiters of a process.
--
-- KEYS[2]  list: elements that a client of Redisson has moved because they were due, and elements
--          that were put back
-- KEYS[3]  sorted set: elements after an id, by their due times in milliseconds since 1970
-- KEYS[4]  Redisson's list of the elements that its clients have delayed
-- ARGV[4]  maximum number of elements
-- ARGV[5]  maximum number of bytes, approximately
-- ARGV[6]  maximum number of elements of Redisson's list to visit, approximately
-- Returns  {elements, 0}         there are more
--          {elements, n} n > 0   the next is due in n milliseconds
--          {elements, -1}        nothing is delayed
--
-- A member that is not an item of a delayed queue is not taken, nor are the elements after it. If
-- it is the first element, the script returns an error.
--
-- Work: O(log n) for each. If Redisson's clients have delayed elements, O(length of Redisson's
-- list) for each: the longer that list, the fewer elements are taken. Sent twice, it acts once. An
-- empty reply is stored too: otherwise a late copy of the request would take elements that no
-- caller receives. If the reply cannot be stored, the elements are put back, because the reply
-- could be lost.
local most, room = tonumber(ARGV[4]), tonumber(ARGV[5])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local listed = redis.call('LLEN', KEYS[4])
local limit = most
if listed > 0 then
  limit = math.min(most, math.max(1, math.floor(tonumber(ARGV[6]) / listed)))
end
-- All reads that can fail because of stored data come before the first write.
local ready = redis.call('LLEN', KEYS[2])
local values, members, bytes = {}, {}, 0
local taken, from_list = {}, 0
if ready < most then
  for _, member in ipairs(redis.call('ZRANGE', KEYS[3], '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', 0, math.min(limit, most - ready))) do
    local is_item, _, value = pcall(struct.unpack, 'Bc0Lc0', member)
    if not is_item and ready == 0 and #values == 0 then
      return redis.error_reply('ERR a member of the sorted set is not an item of a delayed queue: Bc0Lc0 of struct is expected')
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
local function put_back(result)
  for at = from_list, 1, -1 do
    redis.call('LPUSH', KEYS[2], taken[at])
  end
  return type(result) == 'table' and result or redis.error_reply(tostring(result))
end
local scores = {}
if from_list == ready and #members > 0 then
  scores = redis.pcall('ZMSCORE', KEYS[3], unpack(members))
  local removed = scores.err and scores or redis.pcall('ZREM', KEYS[3], unpack(members))
  if type(removed) == 'table' then
    return put_back(removed)
  end
  for at, value in ipairs(values) do
    taken[#taken + 1] = value
    if listed > 0 then
      -- Redisson's clients read this list. The element is taken even if the user may not write the
      -- list.
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
local done, result = pcall(answer, {taken, hint})
if done then
  return result
end
for at = 1, #taken - from_list do
  redis.call('ZADD', KEYS[3], scores[at], members[at])
end
return put_back(result)
