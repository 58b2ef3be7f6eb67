-- whole_prelude.lua: common prelude of the scripts on a whole multimap.
--
-- A client reads the keys of the map and declares the keys of their values. A script checks that
-- these are all keys of the map, and that none has changed.
--
-- Work: O(keys of the map), 10,000 at most.
local function has_same_keys(map, prefix, first, last)
  local present, count = {}, 0
  for _, hash in ipairs(redis.call('HVALS', map)) do
    present[prefix .. hash] = true
    count = count + 1
  end
  if count ~= last - first + 1 then
    return false
  end
  for i = first, last do
    if not present[KEYS[i]] then
      return false
    end
  end
  return true
end

-- Returns an error for commands that this user may not run. Only Redis from 7.0 on reports that.
local function check_permitted(commands)
  for _, command in ipairs(redis.acl_check_cmd and commands or {}) do
    if not redis.acl_check_cmd(unpack(command)) then
      return redis.error_reply('NOPERM this user may not run ' .. command[1] .. ', which is needed for a multimap as a whole; nothing is changed')
    end
  end
end
