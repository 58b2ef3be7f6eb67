-- key_prelude.lua: common prelude of the scripts on keys of a multimap.
--
-- KEYS[1]     map, a hash: keys, and the hash of each; then the values of keys, sets or lists
-- KEYS[#KEYS] expiries, if ARGV[1] is `ends`: a sorted set of keys, scored by expiry in
--             milliseconds since 1970
-- ARGV[1]     lifetime mode: plain, keys have no lifetimes; ends, lifetimes are in the sorted set
--             of expiries; native, they are lifetimes of the hash fields, and the values have the
--             same
--
-- The map and the expiries, with their content, are Redisson's; times are the server's. Changing a
-- lifetime never makes an expired key visible again: all its values are removed before its expiry.
local mode = ARGV[1]
local expiries = mode == 'ends' and KEYS[#KEYS] or nil
local now = 0
if expiries then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns the remaining lifetime of a key in milliseconds: that of the map if the key has no
-- shorter one; below 0 if neither expires.
local function key_ttl(key)
  local ttl = redis.call('PTTL', KEYS[1])
  if mode == 'native' then
    local field_ttl = (redis.call('HPTTL', KEYS[1], 'FIELDS', 1, key) or {})[1] or -2
    if field_ttl >= 0 and (ttl < 0 or field_ttl < ttl) then
      ttl = field_ttl
    end
  end
  return ttl
end

-- Returns an error if a change would fail, before anything is written: for keys of other types, and
-- for commands that this user may not run. Only Redis from 7.0 on reports the latter. On a server
-- without lifetimes of fields, keys have none.
--
-- `add` and `remove` are commands for values of the key ARGV[2]. Added values must live as long as
-- the key, so its lifetime must be readable, and the user must be allowed to set it.
local function check_permitted(add, remove)
  redis.call('HLEN', KEYS[1])
  local commands = {}
  if mode ~= 'plain' then
    commands = {{'HSET', KEYS[1], 'f', 'v'}, {'HDEL', KEYS[1], 'f'}, {'UNLINK', KEYS[2] or KEYS[1]}, {'PTTL', KEYS[1]}, {'PEXPIRE', KEYS[1], 1}}
    if add then
      commands[#commands + 1] = {add, KEYS[2], 'v'}
    end
    if remove then
      commands[#commands + 1] = remove == 'LREM' and {remove, KEYS[2], 1, 'v'} or {remove, KEYS[2], 'v'}
    end
  end
  if expiries then
    redis.call('ZCARD', expiries)
    commands[#commands + 1] = {'ZREM', expiries, 'f'}
    commands[#commands + 1] = {'ZRANGEBYSCORE', expiries, 0, 1}
  elseif mode == 'native' then
    local probe = redis.pcall('HPTTL', KEYS[1], 'FIELDS', 1, 'f')
    if type(probe) == 'table' and probe.err then
      if not string.find(probe.err, 'nknown') then
        return probe
      end
      mode = 'plain'
    end
  end
  if add then
    if key_ttl(ARGV[2]) >= 0 then
      commands[#commands + 1] = {'PEXPIRE', KEYS[2], 1}
    elseif redis.call('PTTL', KEYS[2]) >= 0 then
      commands[#commands + 1] = {'PERSIST', KEYS[2]}
    end
  end
  for _, command in ipairs(redis.acl_check_cmd and commands or {}) do
    if not redis.acl_check_cmd(unpack(command)) then
      return redis.error_reply('NOPERM this user may not run ' .. command[1] .. ', which changes of multimaps need; nothing is changed')
    end
  end
end

-- Returns whether a key has expired.
local function is_expired(key)
  local expiry = expiries and redis.call('ZSCORE', expiries, key)
  return expiry and tonumber(expiry) <= now
end

-- Removes the expiry of a removed key, and all expiries if the map does not exist.
local function forget_expiry(key)
  if expiries then
    if key then
      redis.call('ZREM', expiries, key)
    end
    if redis.call('EXISTS', KEYS[1]) == 0 then
      redis.call('UNLINK', expiries)
    end
  end
end

-- Removes an expired key with its values.
local function remove_expired(key, values)
  redis.call('UNLINK', values)
  redis.call('HDEL', KEYS[1], key)
  redis.call('ZREM', expiries, key)
end

-- Gives the values the lifetime of their key. Values that outlive their map would belong to no map.
-- Values with the expiry of an earlier map would expire at that time.
local function sync_ttl(key, values)
  local ttl, values_ttl = key_ttl(key), redis.call('PTTL', values)
  if ttl >= 0 and values_ttl ~= ttl then
    redis.call('PEXPIRE', values, math.max(ttl, 1))
  elseif ttl < 0 and values_ttl >= 0 then
    redis.call('PERSIST', values)
  end
end

-- Returns some expired keys, for the client to remove: a script must declare the keys that it
-- writes.
local function expired_keys()
  return expiries and redis.call('ZRANGEBYSCORE', expiries, '-inf', now, 'LIMIT', 0, 20) or {}
end
