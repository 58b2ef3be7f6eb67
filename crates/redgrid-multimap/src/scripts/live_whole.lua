-- live_whole.lua: another end for a multimap as a whole. Behind same.lua.
--
-- KEYS[1]  map, a hash
-- KEYS[2]  ends of its keys' lifetimes, a sorted set
-- KEYS[3…] the values of its keys, all of them
-- ARGV[1]  how keys have lifetimes: plain, ends or native
-- ARGV[2]  what is in front of a hash in the name of values
-- ARGV[3]  PEXPIRE, PEXPIREAT or PERSIST
-- ARGV[4]  milliseconds, but for PERSIST
-- ARGV[5]  none, some, later or sooner: what must be so of the end that it has; or nothing
-- Returns  -2 its keys are others meanwhile, -1 it is not there, 0 it has another end, 1 done
--
-- Work: O(keys), 10,000 at most. Sent twice, it begins anew.
local function left(key)
  return redis.call('PTTL', key)
end
local was = left(KEYS[1])
if was == -2 then
  return -1
end
if not same(KEYS[1], ARGV[2], 3, #KEYS) then
  return -2
end
if ARGV[3] == 'PERSIST' and was == -1 then
  return 0
end
if ARGV[5] ~= '' then
  local new = tonumber(ARGV[4])
  if ARGV[3] == 'PEXPIREAT' then
    local now = redis.call('TIME')
    new = new - (now[1] * 1000 + math.floor(now[2] / 1000))
  end
  local endless = was == -1
  local so = ARGV[5] == 'none' and endless
    or ARGV[5] == 'some' and not endless
    or ARGV[5] == 'later' and not endless and new > was
    or ARGV[5] == 'sooner' and (endless or new < was)
  if not so then
    return 0
  end
end
local needed = {ARGV[3] == 'PERSIST' and {'PERSIST', KEYS[1]} or {'PEXPIREAT', KEYS[1], 1}, {'PEXPIRE', KEYS[1], 1}}
if ARGV[1] == 'ends' then
  needed[3], needed[4] = {'ZADD', KEYS[2], 1, 'f'}, {'ZREM', KEYS[2], 'f'}
end
local wrong = refused(needed)
if wrong then
  return wrong
end
-- Of keys with a lifetime of their own the values end no later than that.
local own = {}
if ARGV[1] == 'native' then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local told = redis.pcall('HPTTL', KEYS[1], 'FIELDS', 1, all[i])
    if told.err and not string.find(told.err, 'nknown') then
      return told
    end
    if told.err then
      break
    end
    own[ARGV[2] .. all[i + 1]] = told[1] >= 0 and told[1] or nil
  end
end
-- One moment for all of them, however long that takes.
local at = ARGV[4]
if ARGV[3] == 'PEXPIRE' then
  local now = redis.call('TIME')
  at = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + tonumber(at))
end
-- Redisson's: a sorted set that is there has an end, too, when its clients add to it.
if ARGV[1] == 'ends' and ARGV[3] ~= 'PERSIST' then
  redis.call('ZADD', KEYS[2], '92233720368547758', 'redisson__expiretag')
elseif ARGV[1] == 'ends' then
  redis.call('ZREM', KEYS[2], 'redisson__expiretag')
end
for i = 1, #KEYS do
  if ARGV[3] == 'PERSIST' then
    redis.call('PERSIST', KEYS[i])
  else
    redis.call('PEXPIREAT', KEYS[i], at)
  end
  if own[KEYS[i]] then
    local now = left(KEYS[i])
    if now == -1 or now > own[KEYS[i]] then
      redis.call('PEXPIRE', KEYS[i], math.max(own[KEYS[i]], 1))
    end
  end
end
return 1
