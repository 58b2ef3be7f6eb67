-- packed.lua: the prelude of the scripts of a map cache.
--
-- KEYS[1]  map       hash: for each key 8 bytes of a double, the idle time in milliseconds (0 for
--                    none), 8 bytes of a length, and the value
-- KEYS[2]  expiry    sorted set: when the lifetime of a key ends, in milliseconds since 1970
-- KEYS[3]  idle      sorted set: when the idle time of a key ends unless it is accessed
-- KEYS[4]  accesses  sorted set: time or number of accesses of a key; only with a limit
-- KEYS[5]  options   hash: max-size, mode, has-listeners
-- KEYS[6…] leases    Redisson's, for each written key: the client that loads it. A write deletes
--                    it.
-- ARGV[1]  publish   PUBLISH or SPUBLISH
-- ARGV[2…5] created, updated, removed, expired: channels
--
-- All five keys and their contents are Redisson's; times are those of the server.
local CREATED, UPDATED, REMOVED, EXPIRED = 2, 3, 4, 5
local MAX_REMOVED = 100
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local options = redis.call('HMGET', KEYS[5], 'max-size', 'mode', 'has-listeners')
local limit = tonumber(options[1] or '0') or 0
if limit > 0 then
  redis.call('ZCARD', KEYS[4])
end
-- Number of entries that all calls of `evict` together may still remove.
local budget = MAX_REMOVED

-- Called before anything is written. Fails if a key has another type. Returns an error if the user
-- may not run a command of a change. Only servers from Redis 7.0 on report permissions.
local function precheck()
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

-- Publishes an event if there are listeners. A refused publication undoes nothing.
local function publish_event(channel, field, value, previous)
  if options[3] then
    local message = struct.pack('Lc0Lc0', #field, field, #value, value)
    if previous then
      message = message .. struct.pack('Lc0', #previous, previous)
    end
    redis.pcall(ARGV[1], ARGV[channel], message)
  end
end

-- Deletes an entry with its times.
local function delete_entry(field)
  redis.call('HDEL', KEYS[1], field)
  for at = 2, 4 do
    redis.call('ZREM', KEYS[at], field)
  end
end

-- Returns the value and the idle time of an entry; if it is expired, nil, nil and its value.
local function read_live(field)
  local packed = redis.call('HGET', KEYS[1], field)
  if not packed then
    return nil
  end
  local idle, value = struct.unpack('dLc0', packed)
  local expiry = redis.call('ZSCORE', KEYS[2], field)
  local idle_expiry = idle ~= 0 and redis.call('ZSCORE', KEYS[3], field)
  if (expiry and tonumber(expiry) <= now) or (idle_expiry and tonumber(idle_expiry) <= now) then
    return nil, nil, value
  end
  return value, idle
end

-- Removes expired entries. Visits up to `most`, and returns how many it has visited.
local function purge(most)
  local visited = 0
  for at = 2, 3 do
    local expired = redis.call('ZRANGEBYSCORE', KEYS[at], '-inf', now, 'LIMIT', 0, most - visited)
    for _, field in ipairs(expired) do
      local packed = redis.call('HGET', KEYS[1], field)
      local ok, idle, value = pcall(struct.unpack, 'dLc0', packed or '')
      if at == 3 and ok and idle == 0 then
        -- The entry has no idle time: its score is obsolete.
        redis.call('ZREM', KEYS[3], field)
      else
        delete_entry(field)
        if ok then
          publish_event(EXPIRED, field, value)
        end
      end
    end
    visited = visited + #expired
  end
  return visited
end

-- Gives the companion keys the TTL of the map. If the map has none, or does not exist, a TTL that
-- they have from an earlier map is removed.
local function sync_expiry()
  local ttl = redis.call('PTTL', KEYS[1])
  for at = 2, 5 do
    if ttl > 0 then
      redis.call('PEXPIRE', KEYS[at], ttl)
    else
      if at < 5 then
        -- Redisson adds this member to the sorted sets of a map with a TTL.
        redis.call('ZREM', KEYS[at], 'redisson__expiretag')
      end
      if redis.call('PTTL', KEYS[at]) >= 0 then
        redis.call('PERSIST', KEYS[at])
      end
    end
  end
end

-- Records an access to an entry.
local function record_access(field, idle)
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

-- Evicts an entry. Returns 1 if it existed, otherwise 0.
local function evict_entry(field)
  local packed = redis.call('HGET', KEYS[1], field)
  delete_entry(field)
  local ok, _, value = pcall(struct.unpack, 'dLc0', packed or '')
  if ok then
    publish_event(REMOVED, field, value)
  end
  return packed and 1 or 0
end

-- Removes entries beyond the limit, but not `except`: expired ones first, then those with the
-- fewest or oldest accesses. Removes up to MAX_REMOVED, and never more than `budget`.
local function evict(except)
  if limit <= 0 or budget <= 0 then
    return
  end
  local excess = redis.call('HLEN', KEYS[1]) - limit
  if excess <= 0 then
    return
  end
  purge(math.min(excess, MAX_REMOVED, budget))
  local rest = redis.call('HLEN', KEYS[1]) - limit
  budget = budget - (excess - rest)
  rest = math.min(rest, MAX_REMOVED, budget)
  if rest <= 0 then
    return
  end
  budget = budget - rest
  for _, field in ipairs(redis.call('ZRANGE', KEYS[4], 0, rest)) do
    if rest > 0 and field ~= except and field ~= 'redisson__expiretag' then
      rest = rest - evict_entry(field)
    end
  end
  if rest > 0 then
    -- Last, evict entries that were not accessed since the limit was set.
    for _, field in ipairs(redis.call('HRANDFIELD', KEYS[1], 2 * rest)) do
      if rest > 0 and field ~= except and not redis.call('ZSCORE', KEYS[4], field) then
        rest = rest - evict_entry(field)
      end
    end
  end
end

-- Computes an expiry from a lifetime: `5000` from now, `@1700000000000`, `=` for the current one,
-- or `0` for none.
local function expiry_of(lifetime, current_expiry)
  if lifetime == '=' then
    return current_expiry
  elseif lifetime == '0' then
    return nil
  elseif string.sub(lifetime, 1, 1) == '@' then
    return tonumber(string.sub(lifetime, 2))
  end
  return now + tonumber(lifetime)
end

-- Sets the expiry and the idle time of an entry.
local function set_expiry(field, expiry, idle)
  if expiry then
    redis.call('ZADD', KEYS[2], expiry, field)
  else
    redis.call('ZREM', KEYS[2], field)
  end
  if idle ~= 0 then
    redis.call('ZADD', KEYS[3], now + idle, field)
  else
    redis.call('ZREM', KEYS[3], field)
  end
end
