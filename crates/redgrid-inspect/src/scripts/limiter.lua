-- limiter.lua: return the state of a rate limiter, with a bounded amount of work.
--
-- KEYS[1]  config   hash; rate, interval, type, keepAliveTime
-- KEYS[2]  value    string; number of free permits: the rate minus those in the log
-- KEYS[3]  permits  sorted set, the log; score: when the permits were taken, in milliseconds;
--                   member: `Bc0I` of an id and the number of permits
-- Returns  {}       it is not a rate limiter
--          {left, rate, interval, type, keep, value, expired, next, length}  as text; `left` is the
--                   PTTL; `expired` is the number of permits whose time is over, and '' if there
--                   are more than 100 such entries; `next` is the milliseconds until the next entry
--                   expires, or ''; `length` is that of the log
--
-- Work: O(log n) for n entries in the log, and at most 101 entries. Writes nothing. Sent twice, it
-- returns twice.
local function field(name)
  return redis.call('HSTRLEN', KEYS[1], name) <= 20 and redis.call('HGET', KEYS[1], name) or ''
end
local rate, interval = field('rate'), field('interval')
local per = tonumber(interval)
if not tonumber(rate) or not per then
  return {}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local border = string.format('%.3f', now - per)
local over = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', border, 'LIMIT', 0, 101)
local expired = 0
for _, entry in ipairs(over) do
  -- Another program may have written the entry.
  local is_read, _, permits = pcall(struct.unpack, 'Bc0I', entry)
  expired = is_read and expired + permits or expired
end
local first = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. border, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {
  tostring(redis.call('PTTL', KEYS[1])),
  rate,
  interval,
  field('type'),
  field('keepAliveTime'),
  redis.call('STRLEN', KEYS[2]) <= 20 and redis.call('GET', KEYS[2]) or '',
  #over <= 100 and string.format('%.0f', expired) or '',
  first[2] and string.format('%.0f', math.ceil(tonumber(first[2]) + per - now)) or '',
  tostring(redis.call('ZCARD', KEYS[3])),
}
