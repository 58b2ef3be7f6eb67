-- take.lua: elements from an end of a list, for those of a process who wait.
--
-- KEYS[2]  list
-- ARGV[4]  LPOP or RPOP
-- ARGV[5]  LPUSH or RPUSH: how it goes back to the same end
-- ARGV[6]  how many at most
-- ARGV[7]  how many bytes, about
-- Returns  {elements, 0}   there are more than these bytes
--          {elements, -1}  it has no others, or so many were not asked for
--
-- Work: O(1) for each. Sent twice, it acts once: that nothing was found is remembered as well, or a late copy would take for nobody. What can not
-- be remembered is put back: its answer might be lost.
local function tell(taken, hint)
  local done, told = pcall(answer, {taken, hint})
  if done then
    return told
  end
  for at = #taken, 1, -1 do
    redis.call(ARGV[5], KEYS[2], taken[at])
  end
  return type(told) == 'table' and told or redis.error_reply(tostring(told))
end
local taken, bytes = {}, 0
while #taken < tonumber(ARGV[6]) do
  if bytes >= tonumber(ARGV[7]) then
    return tell(taken, 0)
  end
  local one = redis.call(ARGV[4], KEYS[2])
  if not one then
    break
  end
  taken[#taken + 1] = one
  bytes = bytes + #one
end
return tell(taken, -1)
