-- take.lua: takes elements from an end of a list or of a priority queue, for the waiters of a
-- process.
--
-- KEYS[2]  list; or sorted set with all scores 0
-- ARGV[4]  LPOP or RPOP; ZPOPMIN or ZPOPMAX
-- ARGV[5]  how to put an element back: LPUSH or RPUSH to its end; ZADD to its previous position
-- ARGV[6]  maximum number of elements
-- ARGV[7]  maximum number of bytes, approximately
-- Returns  {elements, 0}   the maximum number of bytes is reached; there may be more elements
--          {elements, -1}  there are no others, or the maximum number of elements was taken
--
-- Work: O(1) for each; O(log n) in a sorted set. Sent twice, it acts once. An empty reply is stored
-- too: otherwise a late copy of the request would take elements that no caller receives. If the
-- reply cannot be stored, the elements are put back, because the reply could be lost.
local function reply(taken, hint)
  local done, result = pcall(answer, {taken, hint})
  if done then
    return result
  end
  for at = #taken, 1, -1 do
    if ARGV[5] == 'ZADD' then
      redis.call('ZADD', KEYS[2], 0, taken[at])
    else
      redis.call(ARGV[5], KEYS[2], taken[at])
    end
  end
  return type(result) == 'table' and result or redis.error_reply(tostring(result))
end
local taken, bytes = {}, 0
while #taken < tonumber(ARGV[6]) do
  if bytes >= tonumber(ARGV[7]) then
    return reply(taken, 0)
  end
  local one = redis.call(ARGV[4], KEYS[2])
  if type(one) == 'table' then
    one = one[1]
  end
  if not one then
    break
  end
  taken[#taken + 1] = one
  bytes = bytes + #one
end
return reply(taken, -1)
