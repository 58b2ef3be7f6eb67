-- take.lua: elements from an end of a list or of a priority queue, for those of a process who wait.
--
-- KEYS[2]  list; or sorted set whose scores are all 0
-- ARGV[4]  LPOP or RPOP; ZPOPMIN or ZPOPMAX
-- ARGV[5]  LPUSH or RPUSH, how it goes back to the same end; ZADD, as it goes back where it was
-- ARGV[6]  how many at most
-- ARGV[7]  how many bytes, about
-- Returns  {elements, 0}   there are more than these bytes
--          {elements, -1}  it has no others, or so many were not asked for
--
-- Work: O(1) for each, of a sorted set O(log n). Sent twice, it acts once: that nothing was found is remembered as well, or a late copy would
-- take for nobody. What can not be remembered is put back: its answer might be lost.
local function tell(taken, hint)
  local done, told = pcall(answer, {taken, hint})
  if done then
    return told
  end
  for at = #taken, 1, -1 do
    if ARGV[5] == 'ZADD' then
      redis.call('ZADD', KEYS[2], 0, taken[at])
    else
      redis.call(ARGV[5], KEYS[2], taken[at])
    end
  end
  return type(told) == 'table' and told or redis.error_reply(tostring(told))
end
local taken, bytes = {}, 0
while #taken < tonumber(ARGV[6]) do
  if bytes >= tonumber(ARGV[7]) then
    return tell(taken, 0)
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
return tell(taken, -1)
