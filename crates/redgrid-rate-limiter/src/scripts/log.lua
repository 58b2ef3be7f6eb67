-- log.lua: the log of a rate limiter, in Redisson's format. Appended to dedup.lua.
--
-- KEYS[2]  config   hash; rate, interval in milliseconds, type (1: each client has a log of its
--                   own), keepAliveTime
-- KEYS[3]  value    string; number of free permits: the rate minus those in the log. Computed from
--                   the log if missing
-- KEYS[4]  the value of this client alone
-- KEYS[5]  permits  sorted set, the log; score: when the permits were taken, in milliseconds;
--                   member: `Bc0I` of 16 bytes and the number of permits
-- KEYS[6]  the log of this client alone
-- KEYS[7]  right_for  string; the rate for which the client's own value is right; redgrid's own key
--
-- A call removes at most DROPS expired entries. It counts a log of up to COUNTED entries, and a
-- longer one only if its value is wrong. In that case only the latest SUMMED entries are summed,
-- and each older one counts as one permit. Scores more than ALIEN ms in the future were written
-- before the clock was set back.
local DROPS, COUNTED, SUMMED, ALIEN = 1000, 64, 5000, 1000
local set = redis.call('HMGET', KEYS[2], 'rate', 'interval', 'type', 'keepAliveTime')
if not (set[1] and set[2] and set[3]) then
  return answer({'0'})
end
local rate, interval, keep = tonumber(set[1]), tonumber(set[2]), tonumber(set[4] or '0')
if not (rate and interval and keep) then
  return redis.error_reply('ERR the rate is no number')
end
local own = set[3] == '1'
local value, permits = KEYS[own and 4 or 3], KEYS[own and 6 or 5]
local now = redis.call('TIME')
now = now[1] * 1000 + now[2] / 1000

local function time(at)
  return string.format('%.3f', at)
end
local function count(entry)
  local _, taken = struct.unpack('Bc0I', entry)
  return taken
end
local function sum(entries)
  local all = 0
  for _, entry in ipairs(entries) do
    all = all + count(entry)
  end
  return all
end
local function failed(reply)
  return type(reply) == 'table' and reply.err and reply
end

-- Read the expired entries, entries from the future (the clock was set back), and the number of
-- free permits.
local over = redis.call('ZRANGEBYSCORE', permits, '-inf', time(now - interval), 'LIMIT', 0, DROPS)
local alien = redis.call('ZRANGEBYSCORE', permits, time(now + ALIEN), '+inf', 'LIMIT', 0, DROPS)
local freed, more = sum(over), #over == DROPS
local left = redis.call('ZCARD', permits) - #over
local was = redis.call('GET', value)
if was and not tonumber(was) then
  return redis.error_reply('ERR the value of the limiter is no number')
end
local free = was and tonumber(was) + freed
-- The number of permits in the log; set only if the value must be written again.
local used
-- A change of the rate by Redisson does not reach the values of other clients.
local right_for = own and redis.call('GET', KEYS[7])
if was and right_for and right_for ~= set[1] then
  free = free + rate - tonumber(right_for)
  used = rate - free
end
-- Permits that Redisson gives back stay in the log, so the value may be higher than the log allows.
-- When entries have expired, the value is corrected. Otherwise the permits of these entries would
-- be free a second time, although others may have taken them by then. A short log is counted in
-- each call. In a long one, each entry counts as one permit.
local all = left <= COUNTED and sum(redis.call('ZRANGE', permits, #over, -1))
local most = (own or freed > 0) and rate - (all or left) or rate
local wrong = not was or free > most or (all and free + all < rate)
if wrong or (own and not right_for) then
  used = all
  if not used then
    local first = math.max(#over, #over + left - SUMMED)
    used = first - #over + sum(redis.call('ZRANGE', permits, first, -1))
  end
  free = rate - used
end
local is_exact = not all or free + all == rate

-- Tests, before anything is written, whether the log can be written, with an entry that does not
-- exist. Returns the error if it cannot.
local function refused_to_write()
  return failed(redis.pcall('ZADD', permits, 'XX', '0', '')) or failed(redis.pcall('ZREM', permits, ''))
end

-- Takes permits and adds `entries` to the log: score and member of each. Returns nil, or the error
-- if nothing was changed.
local function write(taken, entries)
  local function back()
    if not used then
      redis.call('INCRBY', value, string.format('%.0f', taken - freed))
    elseif was then
      redis.call('SET', value, was)
    else
      redis.call('DEL', value)
    end
  end
  local delta = (used and -used or freed) - taken
  if used then
    redis.call('SET', value, set[1])
  end
  if delta ~= 0 then
    local refused = failed(redis.pcall('INCRBY', value, string.format('%.0f', delta)))
    if refused then
      if used then
        back()
      end
      return refused
    end
  end
  if #over > 0 then
    local refused = failed(redis.pcall('ZREMRANGEBYRANK', permits, 0, #over - 1))
    if refused then
      back()
      return refused
    end
  end
  if #entries > 0 then
    local refused = failed(redis.pcall('ZADD', permits, unpack(entries)))
    if refused then
      redis.call('INCRBY', value, string.format('%.0f', taken))
      return refused
    end
  end
  for _, entry in ipairs(alien) do
    redis.pcall('ZADD', permits, time(now), entry)
  end
end

-- The TTL of all keys: that of the limiter. A log of a single client has one in any case.
local lasts = keep > 0 and keep or redis.call('PTTL', KEYS[2])
if lasts <= 0 and own then
  lasts = 2 * interval + 60000
end
lasts = string.format('%.0f', lasts)
if tonumber(lasts) > 0 then
  -- This precedes all other writes, so that a user without permission for PEXPIRE gets an error.
  redis.call('PEXPIRE', permits, lasts)
end

local function live()
  if keep > 0 then
    redis.call('PEXPIRE', KEYS[2], lasts)
  end
  if tonumber(lasts) > 0 then
    redis.call('PEXPIRE', value, lasts)
    redis.call('PEXPIRE', permits, lasts)
    if own then
      redis.call('SET', KEYS[7], set[1], 'PX', lasts)
    end
  end
end
