-- map_cache.lua: return the state of a map cache, with a bounded amount of work.
--
-- KEYS[1]  entries    hash
-- KEYS[2]  lifetimes  sorted set; score: when the lifetime of an entry ends, in milliseconds
-- KEYS[3]  idle       sorted set; score: when the idle time of an entry ends
-- KEYS[4]  options    hash; max-size, mode
-- Returns  {}         it is not a map cache
--          {left, length, lifetimes, over, next, idle, idle_over, idle_next, max, mode}
--                     as text; `left` is the PTTL; `over` is the number of ends in the past, whose
--                     entries the next request removes; `next` is the milliseconds until the next
--                     end, or ''; `max` and `mode` are '' without a limit
--
-- Work: O(log n) for n entries, writes nothing. No entry is read. Sent twice, it returns twice.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_text = string.format('%.0f', now)

local function option(name)
  if redis.call('TYPE', KEYS[4]).ok ~= 'hash' or redis.call('HSTRLEN', KEYS[4], name) > 20 then
    return ''
  end
  return redis.call('HGET', KEYS[4], name) or ''
end

if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  return {}
end
local out = {tostring(redis.call('PTTL', KEYS[1])), tostring(redis.call('HLEN', KEYS[1]))}
local is_cache = false
for at = 2, 3 do
  local number, over, next_end = '0', '0', ''
  if redis.call('TYPE', KEYS[at]).ok == 'zset' then
    is_cache = true
    number = tostring(redis.call('ZCARD', KEYS[at]))
    over = tostring(redis.call('ZCOUNT', KEYS[at], '-inf', now_text))
    local first = redis.call('ZRANGEBYSCORE', KEYS[at], '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    next_end = first[2] and string.format('%.0f', math.ceil(tonumber(first[2]) - now)) or ''
  end
  for _, part in ipairs({number, over, next_end}) do
    out[#out + 1] = part
  end
end
local max = option('max-size')
if not is_cache and max == '' then
  return {}
end
out[#out + 1] = max
out[#out + 1] = option('mode')
return out
