-- stream.lua: return the state of a stream and of its groups, with a bounded amount of work.
--
-- KEYS[1]  stream
-- KEYS[2]  leases  sorted set: the subscribers of a reliable topic, scored by the end of their
--                  lease, in milliseconds by this server's clock. A key of another type is ignored
-- ARGV[1]  most    maximum number of groups; if there are more, none is returned
-- Returns  {}      it is not a stream
--          {left, length, added, last, first, groups, subscribers, expired,
--           name, consumers, pending, delivered, lag, …}
--                  as text; `left` is the PTTL; `added` is the number of entries so far; `last` and
--                  `first` are ids of entries; `subscribers` is '' unless it is a reliable topic;
--                  `expired` is the number of those with an expired lease. Each group has five
--                  parts: `delivered` is the id up to which entries were delivered, and `lag` the
--                  number of entries after it. A value that the server does not know is ''. A name
--                  is cut after 1,024 bytes
--
-- Work: O(most + log n) for n subscribers, and O(bytes) of the first and the last entry, which
-- XINFO reads whole and which are not returned. Writes nothing. Sent twice, it returns twice.
local function field_value(fields, name)
  for at = 1, #fields, 2 do
    if fields[at] == name then
      return fields[at + 1]
    end
  end
end

local function text(value)
  if type(value) == 'number' then
    return string.format('%.0f', value)
  end
  return value or ''
end

if redis.call('TYPE', KEYS[1]).ok ~= 'stream' then
  return {}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local first, groups = field_value(info, 'first-entry'), field_value(info, 'groups')
local is_topic = redis.call('TYPE', KEYS[2]).ok == 'zset'
local out = {
  tostring(redis.call('PTTL', KEYS[1])),
  text(field_value(info, 'length')),
  text(field_value(info, 'entries-added')),
  text(field_value(info, 'last-generated-id')),
  first and first[1] or '',
  text(groups),
  is_topic and text(redis.call('ZCARD', KEYS[2])) or '',
  is_topic and text(redis.call('ZCOUNT', KEYS[2], '-inf', string.format('(%.0f', now))) or '',
}
if groups <= tonumber(ARGV[1]) then
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    out[#out + 1] = string.sub(field_value(group, 'name'), 1, 1024)
    for _, field in ipairs({'consumers', 'pending', 'last-delivered-id', 'lag'}) do
      out[#out + 1] = text(field_value(group, field))
    end
  end
end
return out
