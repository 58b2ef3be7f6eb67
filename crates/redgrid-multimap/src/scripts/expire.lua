-- expire.lua: sets or removes the lifetime of a key of a multimap. After key_prelude.lua.
--
-- KEYS[2]  values of the key: a set or a list
-- ARGV[2]  key
-- ARGV[3]  milliseconds from now; or @ and milliseconds since 1970; or 0 for no lifetime
-- Returns  1: done; 0: there is no such key
--
-- Work: O(log keys). Sent twice, the lifetime starts again. A server without lifetimes of fields,
-- and a user without the permission to set lifetimes, are reported before anything is written.
local key, lifetime = ARGV[2], ARGV[3]
local expiry = string.sub(lifetime, 1, 1) == '@' and string.sub(lifetime, 2)
if mode == 'native' then
  local probe = redis.pcall('HPTTL', KEYS[1], 'FIELDS', 1, key)
  if type(probe) == 'table' and probe.err then
    return probe
  end
end
local refusal = check_permitted()
if refusal then
  return refusal
end
local commands = expiries and {{'ZADD', expiries, 1, 'f'}, {'PEXPIRE', expiries, 1}, {'PERSIST', expiries}} or {
  {'HPEXPIRE', KEYS[1], 1, 'FIELDS', 1, 'f'}, {'HPEXPIREAT', KEYS[1], 1, 'FIELDS', 1, 'f'}, {'HPERSIST', KEYS[1], 'FIELDS', 1, 'f'},
  {'PEXPIREAT', KEYS[2], 1}, {'PERSIST', KEYS[2]},
}
for _, command in ipairs(redis.acl_check_cmd and commands or {}) do
  if not redis.acl_check_cmd(unpack(command)) then
    return redis.error_reply('NOPERM this user may not run ' .. command[1] .. ', which lifetimes of keys of multimaps need; nothing is changed')
  end
end
if is_expired(key) then
  remove_expired(key, KEYS[2])
  forget_expiry()
  return 0
end
if redis.call('HEXISTS', KEYS[1], key) == 0 or redis.call('EXISTS', KEYS[2]) == 0 then
  return 0
end
if expiries then
  if lifetime == '0' then
    redis.call('ZREM', expiries, key)
  else
    redis.call('ZADD', expiries, expiry or string.format('%.0f', now + tonumber(lifetime)), key)
    local map_ttl = redis.call('PTTL', KEYS[1])
    -- The sorted set lives as long as the map, whatever TTL it has from an earlier map.
    if map_ttl >= 0 then
      redis.call('PEXPIRE', expiries, math.max(map_ttl, 1))
    else
      redis.call('PERSIST', expiries)
    end
  end
  return 1
end
if lifetime == '0' then
  redis.call('HPERSIST', KEYS[1], 'FIELDS', 1, key)
  redis.call('PERSIST', KEYS[2])
elseif expiry then
  redis.call('HPEXPIREAT', KEYS[1], expiry, 'FIELDS', 1, key)
  redis.call('PEXPIREAT', KEYS[2], expiry)
else
  redis.call('HPEXPIRE', KEYS[1], lifetime, 'FIELDS', 1, key)
  redis.call('PEXPIRE', KEYS[2], lifetime)
end
local map_ttl = redis.call('PTTL', KEYS[1])
local values_ttl = redis.call('PTTL', KEYS[2])
if map_ttl >= 0 and (values_ttl == -1 or values_ttl > map_ttl) then
  redis.call('PEXPIRE', KEYS[2], math.max(map_ttl, 1))
end
return 1
