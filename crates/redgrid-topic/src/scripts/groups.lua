-- groups.lua: common prelude of the scripts of a reliable topic.
--
-- KEYS[1]  stream  the messages, each with the field `m`, and a group for each subscriber. A
--                  subscriber has acknowledged all messages up to the last id of its group
-- KEYS[2]  leases  sorted set: subscribers, scored by the end of their lease, in milliseconds by
--                  this server's clock
--
-- Ids are compared as text, because their parts may be larger than 2^53.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function is_less(one, other)
  if #one ~= #other then
    return #one < #other
  end
  return one < other
end

local function is_before(one, other)
  local ms, seq = string.match(one, '^(%d+)%-(%d+)$')
  local other_ms, other_seq = string.match(other, '^(%d+)%-(%d+)$')
  if ms ~= other_ms then
    return is_less(ms, other_ms)
  end
  return is_less(seq, other_seq)
end

-- Returns the value of a field of an XINFO reply.
local function field_value(fields, name)
  for at = 1, #fields, 2 do
    if fields[at] == name then
      return fields[at + 1]
    end
  end
end

-- Returns the last id of each group; empty if the stream does not exist.
local function group_positions()
  local positions = {}
  if redis.call('EXISTS', KEYS[1]) == 1 then
    for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
      positions[field_value(group, 'name')] = field_value(group, 'last-delivered-id')
    end
  end
  return positions
end

-- Returns the last id that the stream has assigned.
local function newest_id()
  if redis.call('EXISTS', KEYS[1]) == 0 then
    return '0-0'
  end
  return field_value(redis.call('XINFO', 'STREAM', KEYS[1]), 'last-generated-id')
end

-- Removes subscribers with expired leases, 10 at most.
local function evict_expired()
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - 1, 'LIMIT', 0, 10)) do
    if redis.call('EXISTS', KEYS[1]) == 1 then
      redis.call('XGROUP', 'DESTROY', KEYS[1], name)
    end
    redis.call('ZREM', KEYS[2], name)
  end
end

-- Removes messages that all groups have acknowledged, about 1,000 at a time.
local function trim()
  local first
  for _, last in pairs(group_positions()) do
    if not first or is_before(last, first) then
      first = last
    end
  end
  if not first or first == '0-0' then
    return
  end
  local ms, seq = string.match(first, '^(%d+)%-(%d+)$')
  local keep = ms .. '-' .. string.format('%.0f', tonumber(seq) + 1)
  local removed = redis.pcall('XTRIM', KEYS[1], 'MINID', '~', keep, 'LIMIT', 1000)
  if type(removed) ~= 'number' or removed >= 500 then
    return
  end
  -- Trim exactly, too: the approximate trim removes only whole nodes of the stream, and nodes may
  -- be of any size.
  if redis.call('XLEN', KEYS[1]) > 1000 then
    local oldest = redis.call('XRANGE', KEYS[1], '-', first, 'COUNT', 100)
    if #oldest == 0 then
      return
    end
    ms, seq = string.match(oldest[#oldest][1], '^(%d+)%-(%d+)$')
    keep = ms .. '-' .. string.format('%.0f', tonumber(seq) + 1)
  end
  redis.pcall('XTRIM', KEYS[1], 'MINID', keep)
end
