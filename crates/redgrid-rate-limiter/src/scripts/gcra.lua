-- gcra.lua: take permits by the generic cell rate algorithm for callers, in their order. Appended
-- to dedup.lua.
--
-- KEYS[2]  time     string; when all taken permits are replenished (the theoretical arrival time):
--                   microseconds since 1970 by this server's clock, a space, and the rest of a
--                   microsecond in units of 1/rate. The key expires then; if it is missing, the
--                   time is in the past
-- ARGV[4]  rate     number of permits that are replenished in `per`
-- ARGV[5]  per      microseconds; the two have no common divisor
-- ARGV[6]  burst    maximum number of permits at once
-- ARGV[7…] callers  three for each: permits; ahead, in milliseconds; waits; as in acquire.lua
-- Returns  {'1', burst, '0', next, free, '', verdict…}   as acquire.lua
--
-- Work: O(callers), writes one key. All numbers are whole and below 2^53. Sent twice, it takes
-- once.
local rate, per, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local base, rest, set_back = now, 0, false
local was = redis.call('GET', KEYS[2])
if was then
  local whole, part = string.match(was, '^(%d+) (%d+)$')
  if not whole then
    return redis.error_reply('ERR the key of the limiter holds no time')
  end
  base, rest = tonumber(whole), tonumber(part)
  if rest >= rate then
    rest = 0
  end
  -- Permits are taken at most a second ahead: a later time means that the clock was set back.
  local latest = now + math.ceil(burst * per / rate)
  if base > latest + 1000000 then
    base, rest, set_back = latest, 0, true
  end
end
if base < now then
  base, rest = now, 0
end
local free = math.floor((burst * per - (base - now) * rate - rest) / per)
local verdicts, again, stopped, taken = {}, now, false, false
for i = 7, #ARGV, 3 do
  local wanted, ahead, waits = tonumber(ARGV[i]), tonumber(ARGV[i + 1]) * 1000, ARGV[i + 2] == '1'
  local verdict = 'w'
  if wanted > burst then
    verdict = 't'
  elseif not stopped then
    local parts = rest + wanted * per
    local then_rest = math.fmod(parts, rate)
    local then_base = base + (parts - then_rest) / rate
    local at = then_base + math.ceil((then_rest - burst * per) / rate)
    if at - now <= ahead then
      base, rest, taken = then_base, then_rest, true
      verdict = string.format('g 0 %.0f', math.max(0, at - now))
    elseif waits then
      stopped, again = true, at
    end
  end
  table.insert(verdicts, verdict)
end
-- The time is also written after the clock was set back. Otherwise each call would compute it from
-- `now`, and it would never come closer.
if taken or set_back then
  local lasts = math.max(1, math.ceil((base - now) / 1000) + 1)
  redis.call('SET', KEYS[2], string.format('%.0f %.0f', base, rest), 'PX', string.format('%.0f', lasts))
end
local next_in = string.format('%.0f', math.max(0, again - now))
return answer({'1', ARGV[6], '0', next_in, string.format('%.0f', math.max(0, free)), '', unpack(verdicts)})
