-- expire.lua: another lifetime for a key of a multimap. Behind head.lua.
--
-- KEYS[2]  values of the key, a set or a list
-- ARGV[2]  key
-- ARGV[3]  milliseconds from now, @ and milliseconds since 1970, or 0 for none
-- Returns  1 it has it, 0 there is no such key
--
-- Work: O(log keys). Sent twice, it begins anew. A server that knows no lifetimes of fields, and a user who may give none, are told before anything is
-- written.
local key, said = ARGV[2], ARGV[3]
local at = string.sub(said, 1, 1) == '@' and string.sub(said, 2)
if way == 'native' then
  local known = redis.pcall('HPTTL', KEYS[1], 'FIELDS', 1, key)
  if type(known) == 'table' and known.err then
    return known
  end
end
local wrong = refused()
if wrong then
  return wrong
end
local needed = ends and {{'ZADD', ends, 1, 'f'}, {'PEXPIRE', ends, 1}, {'PERSIST', ends}} or {
  {'HPEXPIRE', KEYS[1], 1, 'FIELDS', 1, 'f'}, {'HPEXPIREAT', KEYS[1], 1, 'FIELDS', 1, 'f'}, {'HPERSIST', KEYS[1], 'FIELDS', 1, 'f'},
  {'PEXPIREAT', KEYS[2], 1}, {'PERSIST', KEYS[2]},
}
for _, command in ipairs(redis.acl_check_cmd and needed or {}) do
  if not redis.acl_check_cmd(unpack(command)) then
    return redis.error_reply('NOPERM this user may not run ' .. command[1] .. ', which lifetimes of keys of multimaps need; nothing is changed')
  end
end
if over(key) then
  drop(key, KEYS[2])
  forget()
  return 0
end
if redis.call('HEXISTS', KEYS[1], key) == 0 or redis.call('EXISTS', KEYS[2]) == 0 then
  return 0
end
if ends then
  if said == '0' then
    redis.call('ZREM', ends, key)
  else
    redis.call('ZADD', ends, at or string.format('%.0f', now + tonumber(said)), key)
    local whole = redis.call('PTTL', KEYS[1])
    -- It lives as long as the map, whatever end it has from one before.
    if whole >= 0 then
      redis.call('PEXPIRE', ends, math.max(whole, 1))
    else
      redis.call('PERSIST', ends)
    end
  end
  return 1
end
if said == '0' then
  redis.call('HPERSIST', KEYS[1], 'FIELDS', 1, key)
  redis.call('PERSIST', KEYS[2])
elseif at then
  redis.call('HPEXPIREAT', KEYS[1], at, 'FIELDS', 1, key)
  redis.call('PEXPIREAT', KEYS[2], at)
else
  redis.call('HPEXPIRE', KEYS[1], said, 'FIELDS', 1, key)
  redis.call('PEXPIRE', KEYS[2], said)
end
local whole = redis.call('PTTL', KEYS[1])
local own = redis.call('PTTL', KEYS[2])
if whole >= 0 and (own == -1 or own > whole) then
  redis.call('PEXPIRE', KEYS[2], math.max(whole, 1))
end
return 1
