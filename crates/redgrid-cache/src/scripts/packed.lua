-- packed.lua: what the scripts of a map cache begin with.
--
-- KEYS[1]  map       hash: of each key 8 bytes of a double, the idle time in milliseconds (0 is none), 8 bytes of a length, and the value
-- KEYS[2]  ends      sorted set: when the lifetime of a key is over, in milliseconds since 1970
-- KEYS[3]  idles     sorted set: when a key will have been unused for its idle time
-- KEYS[4]  uses      sorted set: when a key was used, or how often; only where there is a limit
-- KEYS[5]  options   hash: max-size, mode, has-listeners
-- KEYS[6…] leases    Redisson's for each key that is written: who loads it. What is written ends them.
-- ARGV[1]  publish   PUBLISH or SPUBLISH
-- ARGV[2…5] created, updated, removed, expired: channels
--
-- All five keys are Redisson's, and so is their content; times are the server's.
local CREATED, UPDATED, REMOVED, EXPIRED = 2, 3, 4, 5
local MOST = 100
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local options = redis.call('HMGET', KEYS[5], 'max-size', 'mode', 'has-listeners')
local limit = tonumber(options[1] or '0') or 0
if limit > 0 then
  redis.call('ZCARD', KEYS[4])
end
-- How many `evict` may still take out, all its calls together.
local budget = MOST

-- What stands in the way of a change, before anything is written: keys of other types, and what this user may not do where a server tells that, Redis from
-- 7.0 on.
local function refused()
  redis.call('HLEN', KEYS[1])
  for at = 2, 4 do
    redis.call('ZCARD', KEYS[at])
  end
  if not redis.acl_check_cmd then
    return nil
  end
  local needed = {
    {'HSET', KEYS[1], 'f', 'v'}, {'HDEL', KEYS[1], 'f'}, {'HGET', KEYS[1], 'f'}, {'HRANDFIELD', KEYS[1], 1}, {'PTTL', KEYS[1]},
    {'ZADD', KEYS[2], 1, 'f'}, {'ZREM', KEYS[2], 'f'}, {'ZSCORE', KEYS[2], 'f'}, {'ZRANGEBYSCORE', KEYS[2], 0, 1},
    {'PEXPIRE', KEYS[2], 1}, {'PERSIST', KEYS[2]}, {'ZINCRBY', KEYS[4], 1, 'f'}, {'ZRANGE', KEYS[4], 0, 1}, {'UNLINK', KEYS[4]},
    {'DEL', KEYS[6] or KEYS[1]},
  }
  for _, command in ipairs(needed) do
    if not redis.acl_check_cmd(unpack(command)) then
      return redis.error_reply('NOPERM this user may not run ' .. command[1] .. ', which changes of a map cache need; nothing is changed')
    end
  end
end

-- A message to who listens; that it may not be sent undoes nothing.
local function tell(channel, field, value, was)
  if options[3] then
    local message = struct.pack('Lc0Lc0', #field, field, #value, value)
    if was then
      message = message .. struct.pack('Lc0', #was, was)
    end
    redis.pcall(ARGV[1], ARGV[channel], message)
  end
end

-- No entry any more.
local function drop(field)
  redis.call('HDEL', KEYS[1], field)
  for at = 2, 4 do
    redis.call('ZREM', KEYS[at], field)
  end
end

-- The value and the idle time of an entry; where it is over nothing, nothing, and what its value was.
local function live(field)
  local packed = redis.call('HGET', KEYS[1], field)
  if not packed then
    return nil
  end
  local idle, value = struct.unpack('dLc0', packed)
  local ends = redis.call('ZSCORE', KEYS[2], field)
  local unused = idle ~= 0 and redis.call('ZSCORE', KEYS[3], field)
  if (ends and tonumber(ends) <= now) or (unused and tonumber(unused) <= now) then
    return nil, nil, value
  end
  return value, idle
end

-- Takes out what is over, so many at most; tells how many it looked at.
local function purge(most)
  local seen = 0
  for at = 2, 3 do
    local over = redis.call('ZRANGEBYSCORE', KEYS[at], '-inf', now, 'LIMIT', 0, most - seen)
    for _, field in ipairs(over) do
      local packed = redis.call('HGET', KEYS[1], field)
      local read, idle, value = pcall(struct.unpack, 'dLc0', packed or '')
      if at == 3 and read and idle == 0 then
        -- It has no idle time any more.
        redis.call('ZREM', KEYS[3], field)
      else
        drop(field)
        if read then
          tell(EXPIRED, field, value)
        end
      end
    end
    seen = seen + #over
  end
  return seen
end

-- What belongs to a map that ends does not outlive it; where the map has no end, or there is none any more, nothing has the end that one before had.
local function together()
  local left = redis.call('PTTL', KEYS[1])
  for at = 2, 5 do
    if left > 0 then
      redis.call('PEXPIRE', KEYS[at], left)
    else
      if at < 5 then
        -- Redisson's, in the sets of a map that has an end.
        redis.call('ZREM', KEYS[at], 'redisson__expiretag')
      end
      if redis.call('PTTL', KEYS[at]) >= 0 then
        redis.call('PERSIST', KEYS[at])
      end
    end
  end
end

-- An entry was used.
local function used(field, idle)
  if idle ~= 0 then
    redis.call('ZADD', KEYS[3], now + idle, field)
  end
  if limit > 0 then
    if options[2] == 'LFU' then
      redis.call('ZINCRBY', KEYS[4], 1, field)
    else
      redis.call('ZADD', KEYS[4], now, field)
    end
  end
end

local function take_out(field)
  local packed = redis.call('HGET', KEYS[1], field)
  drop(field)
  local read, _, value = pcall(struct.unpack, 'dLc0', packed or '')
  if read then
    tell(REMOVED, field, value)
  end
  return packed and 1 or 0
end

-- What is more than the limit, but for one entry: what is over, then those used least; so many at most, and never more than `budget`.
local function evict(except)
  if limit <= 0 or budget <= 0 then
    return
  end
  local more = redis.call('HLEN', KEYS[1]) - limit
  if more <= 0 then
    return
  end
  purge(math.min(more, MOST, budget))
  local over = redis.call('HLEN', KEYS[1]) - limit
  budget = budget - (more - over)
  over = math.min(over, MOST, budget)
  if over <= 0 then
    return
  end
  budget = budget - over
  for _, field in ipairs(redis.call('ZRANGE', KEYS[4], 0, over)) do
    if over > 0 and field ~= except and field ~= 'redisson__expiretag' then
      over = over - take_out(field)
    end
  end
  if over > 0 then
    -- What was there before there was a limit, and never used since.
    for _, field in ipairs(redis.call('HRANDFIELD', KEYS[1], 2 * over)) do
      if over > 0 and field ~= except and not redis.call('ZSCORE', KEYS[4], field) then
        over = over - take_out(field)
      end
    end
  end
end

-- When a lifetime is over that is said as `5000` from now, `@1700000000000`, `=` as before, or `0` for none.
local function ending(said, before)
  if said == '=' then
    return before
  elseif said == '0' then
    return nil
  elseif string.sub(said, 1, 1) == '@' then
    return tonumber(string.sub(said, 2))
  end
  return now + tonumber(said)
end

-- Gives an entry its lifetime and its idle time.
local function lives(field, ends, idle)
  if ends then
    redis.call('ZADD', KEYS[2], ends, field)
  else
    redis.call('ZREM', KEYS[2], field)
  end
  if idle ~= 0 then
    redis.call('ZADD', KEYS[3], now + idle, field)
  else
    redis.call('ZREM', KEYS[3], field)
  end
end
