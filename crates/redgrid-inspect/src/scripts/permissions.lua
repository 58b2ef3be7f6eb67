-- permissions.lua: execute the commands of the scripts of locks, and return what is denied.
--
-- KEYS     none, so that nodes of a cluster and replicas answer, too: they check permissions before
--          they reject a command for other reasons
-- ARGV[1]  name  of the keys that are written; unique
-- Returns  {command, …}  the commands that the user may not execute
--
-- Work: O(1), writes a hash and a string, and deletes them. Sent twice, it returns twice.
local name, denied = ARGV[1], {}
local function may(label, ...)
  local answer = redis.pcall(...)
  local refused = type(answer) == 'table' and answer.err
  -- Before 7.0 the texts differ.
  if refused and (refused:find('NOPERM', 1, true) or refused:find("can't run this command", 1, true)
      or refused:find("can't access at least one of the keys", 1, true) or refused:find('no permission', 1, true)
      or refused:find('ACL failure', 1, true) or refused:find('No permissions', 1, true)) then
    denied[#denied + 1] = label
    return false
  end
  return true
end
may('exists', 'EXISTS', name)
may('hexists', 'HEXISTS', name, 'f')
may('hkeys', 'HKEYS', name)
may('hlen', 'HLEN', name)
may('hget', 'HGET', name, 'f')
may('pttl', 'PTTL', name)
may('time', 'TIME')
may('pexpire', 'PEXPIRE', name, '1000')
if may('hdel', 'HDEL', name, 'f') and may('hset', 'HSET', name, 'f', '1') then
  redis.pcall('HDEL', name, 'f')
end
may('publish', 'PUBLISH', 'redisson_lock__channel:{' .. name .. '}', 'doctor')
local wait = 'redgrid_wait:{' .. name .. '}'
if may('set', 'SET', wait, '1', 'PX', '1') then
  redis.pcall('DEL', wait)
end
may('spublish', 'SPUBLISH', 'redisson_lock__channel:{' .. name .. '}', 'doctor')
return denied
