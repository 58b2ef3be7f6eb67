-- head.lua: what the scripts of multimaps begin with.
--
-- KEYS[1]     map, a hash: keys, and the hash of each; behind it the values of keys, sets or lists
-- KEYS[#KEYS] ends, where ARGV[1] is `ends`: a sorted set, when keys are over in milliseconds since 1970
-- ARGV[1]     how keys have lifetimes: plain, not at all; ends, by that; native, as fields of the hash, and their values for as long
--
-- The map and the ends are Redisson's, and so is their content; times are the server's. No lifetime makes a key visible again: of one that is over all
-- values go before its end does.
local way = ARGV[1]
local ends = way == 'ends' and KEYS[#KEYS] or nil
local now = 0
if ends then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- How long a key lives in milliseconds, as long as the map where it has no end of its own; below 0 where that has none.
local function left(key)
  local left = redis.call('PTTL', KEYS[1])
  if way == 'native' then
    local own = (redis.call('HPTTL', KEYS[1], 'FIELDS', 1, key) or {})[1] or -2
    if own >= 0 and (left < 0 or own < left) then
      left = own
    end
  end
  return left
end

-- What stands in the way of a change, before anything is written: keys of other types, and what this user may not do where a server tells that, Redis
-- from 7.0 on. One that knows no lifetimes of fields has none.
-- `add` and `remove` are commands for values of the key ARGV[2]. What is added is to live as long as the key: that has to be known, and to be allowed.
local function refused(add, remove)
  redis.call('HLEN', KEYS[1])
  local needed = {}
  if way ~= 'plain' then
    needed = {{'HSET', KEYS[1], 'f', 'v'}, {'HDEL', KEYS[1], 'f'}, {'UNLINK', KEYS[2] or KEYS[1]}, {'PTTL', KEYS[1]}, {'PEXPIRE', KEYS[1], 1}}
    if add then
      needed[#needed + 1] = {add, KEYS[2], 'v'}
    end
    if remove then
      needed[#needed + 1] = remove == 'LREM' and {remove, KEYS[2], 1, 'v'} or {remove, KEYS[2], 'v'}
    end
  end
  if ends then
    redis.call('ZCARD', ends)
    needed[#needed + 1] = {'ZREM', ends, 'f'}
    needed[#needed + 1] = {'ZRANGEBYSCORE', ends, 0, 1}
  elseif way == 'native' then
    local known = redis.pcall('HPTTL', KEYS[1], 'FIELDS', 1, 'f')
    if type(known) == 'table' and known.err then
      if not string.find(known.err, 'nknown') then
        return known
      end
      way = 'plain'
    end
  end
  if add then
    if left(ARGV[2]) >= 0 then
      needed[#needed + 1] = {'PEXPIRE', KEYS[2], 1}
    elseif redis.call('PTTL', KEYS[2]) >= 0 then
      needed[#needed + 1] = {'PERSIST', KEYS[2]}
    end
  end
  for _, command in ipairs(redis.acl_check_cmd and needed or {}) do
    if not redis.acl_check_cmd(unpack(command)) then
      return redis.error_reply('NOPERM this user may not run ' .. command[1] .. ', which changes of multimaps need; nothing is changed')
    end
  end
end

-- Whether the lifetime of a key is over.
local function over(key)
  local at = ends and redis.call('ZSCORE', ends, key)
  return at and tonumber(at) <= now
end

-- A key that is removed has no end, and ends are not longer there than their map.
local function forget(key)
  if ends then
    if key then
      redis.call('ZREM', ends, key)
    end
    if redis.call('EXISTS', KEYS[1]) == 0 then
      redis.call('UNLINK', ends)
    end
  end
end

-- A key that is over is there no more.
local function drop(key, values)
  redis.call('UNLINK', values)
  redis.call('HDEL', KEYS[1], key)
  redis.call('ZREM', ends, key)
end

-- Values live as long as their key: what is left of a map after its end would be nobody's, and what had the end of a map before it would go with that.
local function live(key, values)
  local left, own = left(key), redis.call('PTTL', values)
  if left >= 0 and own ~= left then
    redis.call('PEXPIRE', values, math.max(left, 1))
  elseif left < 0 and own >= 0 then
    redis.call('PERSIST', values)
  end
end

-- Some keys that are over, for the client to have them taken out: a script declares the keys that it writes.
local function waste()
  return ends and redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 20) or {}
end
