-- same.lua: what scripts on a multimap as a whole begin with.
--
-- A client reads which keys have values and declares them; a script looks whether they are all, and still are.
--
-- Work: O(keys of the map), 10,000 at most.
local function same(map, prefix, first, last)
  local there, count = {}, 0
  for _, hash in ipairs(redis.call('HVALS', map)) do
    there[prefix .. hash] = true
    count = count + 1
  end
  if count ~= last - first + 1 then
    return false
  end
  for i = first, last do
    if not there[KEYS[i]] then
      return false
    end
  end
  return true
end

-- What this user may not do, where a server tells that, Redis from 7.0 on.
local function refused(needed)
  for _, command in ipairs(redis.acl_check_cmd and needed or {}) do
    if not redis.acl_check_cmd(unpack(command)) then
      return redis.error_reply('NOPERM this user may not run ' .. command[1] .. ', which is needed for a multimap as a whole; nothing is changed')
    end
  end
end
