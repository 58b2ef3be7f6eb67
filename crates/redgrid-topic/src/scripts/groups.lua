-- groups.lua: what the scripts of a reliable topic begin with.
--
-- KEYS[1]  stream  the messages, each with the field `m`; a group for each subscriber, whose last id is the last message that it and
--                  all before it were acknowledged
-- KEYS[2]  ends    sorted set: subscribers by when they end, in milliseconds by this server's clock
--
-- Ids are compared as text: their parts may be beyond 2^53.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function less(one, other)
  if #one ~= #other then
    return #one < #other
  end
  return one < other
end

local function is_before(one, other)
  local ms, n = string.match(one, '^(%d+)%-(%d+)$')
  local other_ms, other_n = string.match(other, '^(%d+)%-(%d+)$')
  if ms ~= other_ms then
    return less(ms, other_ms)
  end
  return less(n, other_n)
end

local function part(fields, name)
  for at = 1, #fields, 2 do
    if fields[at] == name then
      return fields[at + 1]
    end
  end
end

-- Where each group is; nothing where there is no stream.
local function groups()
  local found = {}
  if redis.call('EXISTS', KEYS[1]) == 1 then
    for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
      found[part(group, 'name')] = part(group, 'last-delivered-id')
    end
  end
  return found
end

-- The last id that the stream has given.
local function newest()
  if redis.call('EXISTS', KEYS[1]) == 0 then
    return '0-0'
  end
  return part(redis.call('XINFO', 'STREAM', KEYS[1]), 'last-generated-id')
end

-- Takes out subscribers whose time is over, 10 at most.
local function bury()
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - 1, 'LIMIT', 0, 10)) do
    if redis.call('EXISTS', KEYS[1]) == 1 then
      redis.call('XGROUP', 'DESTROY', KEYS[1], name)
    end
    redis.call('ZREM', KEYS[2], name)
  end
end

-- Drops what all groups have behind them: about 1,000 at a time.
local function trim()
  local first
  for _, last in pairs(groups()) do
    if not first or is_before(last, first) then
      first = last
    end
  end
  if not first or first == '0-0' then
    return
  end
  local ms, n = string.match(first, '^(%d+)%-(%d+)$')
  local keep = ms .. '-' .. string.format('%.0f', tonumber(n) + 1)
  local dropped = redis.pcall('XTRIM', KEYS[1], 'MINID', '~', keep, 'LIMIT', 1000)
  if type(dropped) ~= 'number' or dropped >= 500 then
    return
  end
  -- Not whole nodes of the stream, which may be of any size.
  if redis.call('XLEN', KEYS[1]) > 1000 then
    local part = redis.call('XRANGE', KEYS[1], '-', first, 'COUNT', 100)
    if #part == 0 then
      return
    end
    ms, n = string.match(part[#part][1], '^(%d+)%-(%d+)$')
    keep = ms .. '-' .. string.format('%.0f', tonumber(n) + 1)
  end
  redis.pcall('XTRIM', KEYS[1], 'MINID', keep)
end
