-- expire_whole.lua: sets or removes the expiry of a whole multimap. After whole_prelude.lua.
--
-- KEYS[1]  map: a hash
-- KEYS[2]  expiries of its keys: a sorted set
-- KEYS[3…] the values of its keys, all of them
-- ARGV[1]  lifetime mode: plain, ends or native
-- ARGV[2]  prefix of the hash in the names of values
-- ARGV[3]  PEXPIRE, PEXPIREAT or PERSIST
-- ARGV[4]  milliseconds, except for PERSIST
-- ARGV[5]  condition on the present expiry: none, some, later or sooner; or an empty string
-- Returns  -2: the keys of the map have changed; -1: it does not exist; 0: the condition is not
--          met; 1: done
--
-- Work: O(keys), 10,000 at most. Sent twice, the lifetime starts again.
local function pttl(key)
  return redis.call('PTTL', key)
end
local map_ttl = pttl(KEYS[1])
if map_ttl == -2 then
  return -1
end
if not has_same_keys(KEYS[1], ARGV[2], 3, #KEYS) then
  return -2
end
if ARGV[3] == 'PERSIST' and map_ttl == -1 then
  return 0
end
if ARGV[5] ~= '' then
  local new_ttl = tonumber(ARGV[4])
  if ARGV[3] == 'PEXPIREAT' then
    local now = redis.call('TIME')
    new_ttl = new_ttl - (now[1] * 1000 + math.floor(now[2] / 1000))
  end
  local is_endless = map_ttl == -1
  local is_met = ARGV[5] == 'none' and is_endless
    or ARGV[5] == 'some' and not is_endless
    or ARGV[5] == 'later' and not is_endless and new_ttl > map_ttl
    or ARGV[5] == 'sooner' and (is_endless or new_ttl < map_ttl)
  if not is_met then
    return 0
  end
end
local commands = {ARGV[3] == 'PERSIST' and {'PERSIST', KEYS[1]} or {'PEXPIREAT', KEYS[1], 1}, {'PEXPIRE', KEYS[1], 1}}
if ARGV[1] == 'ends' then
  commands[3], commands[4] = {'ZADD', KEYS[2], 1, 'f'}, {'ZREM', KEYS[2], 'f'}
end
local refusal = check_permitted(commands)
if refusal then
  return refusal
end
-- Values of keys with their own lifetime expire no later than their key.
local field_ttls = {}
if ARGV[1] == 'native' then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local reply = redis.pcall('HPTTL', KEYS[1], 'FIELDS', 1, all[i])
    if reply.err and not string.find(reply.err, 'nknown') then
      return reply
    end
    if reply.err then
      break
    end
    field_ttls[ARGV[2] .. all[i + 1]] = reply[1] >= 0 and reply[1] or nil
  end
end
-- All keys get the same expiry, however long the script runs.
local expiry = ARGV[4]
if ARGV[3] == 'PEXPIRE' then
  local now = redis.call('TIME')
  expiry = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + tonumber(expiry))
end
-- Redisson's marker: with it, Redisson's clients give the sorted set an expiry when they add to it.
if ARGV[1] == 'ends' and ARGV[3] ~= 'PERSIST' then
  redis.call('ZADD', KEYS[2], '92233720368547758', 'redisson__expiretag')
elseif ARGV[1] == 'ends' then
  redis.call('ZREM', KEYS[2], 'redisson__expiretag')
end
for i = 1, #KEYS do
  if ARGV[3] == 'PERSIST' then
    redis.call('PERSIST', KEYS[i])
  else
    redis.call('PEXPIREAT', KEYS[i], expiry)
  end
  if field_ttls[KEYS[i]] then
    local ttl = pttl(KEYS[i])
    if ttl == -1 or ttl > field_ttls[KEYS[i]] then
      redis.call('PEXPIRE', KEYS[i], math.max(field_ttls[KEYS[i]], 1))
    end
  end
end
return 1
