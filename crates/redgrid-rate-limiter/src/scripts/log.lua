-- log.lua: the log of a rate limiter, in Redisson's format. Behind dedup.lua.
--
-- KEYS[2]  config   hash; rate, interval in milliseconds, type (1: each client has a log of its own), keepAliveTime
-- KEYS[3]  value    string; how many permits are free: the rate less what is in the log. A missing one is counted anew
-- KEYS[4]  the same of this client
-- KEYS[5]  permits  sorted set, the log: by the time at which permits were taken, in milliseconds, `Bc0I` of 16 bytes and their count
-- KEYS[6]  the same of this client
-- KEYS[7]  beside   string; the rate for which the client's own value is right. Redisson has none
--
-- Of those that are over at most DROPS go in a call; a log of up to COUNTED is counted in each, a longer one where its value is wrong, and
-- there the older ones of more than SUMMED count one each.
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

-- Read: who is over, who is from the future (a clock was set back), how many are free.
local over = redis.call('ZRANGEBYSCORE', permits, '-inf', time(now - interval), 'LIMIT', 0, DROPS)
local alien = redis.call('ZRANGEBYSCORE', permits, time(now + ALIEN), '+inf', 'LIMIT', 0, DROPS)
local freed, more = sum(over), #over == DROPS
local left = redis.call('ZCARD', permits) - #over
local was = redis.call('GET', value)
if was and not tonumber(was) then
  return redis.error_reply('ERR the value of the limiter is no number')
end
local free = was and tonumber(was) + freed
-- What the log holds, where the value is to be written anew.
local used
-- Redisson tells no other client's log of a change.
local right_for = own and redis.call('GET', KEYS[7])
if was and right_for and right_for ~= set[1] then
  free = free + rate - tonumber(right_for)
  used = rate - free
end
-- What Redisson gives back stays in the log: the value may be above what the log leaves, but not when entries are over, which would
-- free a second time what others have by then. A short log is counted each time; of a long one each entry is one at least.
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

-- Why the log can not be written, before anything is; there is no such entry.
local function refused_to_write()
  return failed(redis.pcall('ZADD', permits, 'XX', '0', '')) or failed(redis.pcall('ZREM', permits, ''))
end

-- Takes so many more and writes them into the log, `entries` of score and member in turn; nil, or why nothing was done.
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

-- How long everything is to live: as long as the limiter; a client's own log does not outlive it for long.
local lasts = keep > 0 and keep or redis.call('PTTL', KEYS[2])
if lasts <= 0 and own then
  lasts = 2 * interval + 60000
end
lasts = string.format('%.0f', lasts)
if tonumber(lasts) > 0 then
  -- Now: who may not do it is told before anything is written.
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
