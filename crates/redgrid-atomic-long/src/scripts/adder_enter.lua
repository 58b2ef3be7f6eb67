-- adder_enter.lua: take part in a round of an adder. The first of ours adds the saved total, or sets it to 0; all others count from there.
--
-- KEYS[1]  round    string; `-`, then how often the total had been saved to when it was added; a `!` behind that tells of an overflow
-- KEYS[2]  total    hash; `sum`, how many `saves` it has, and when it was `born`
-- KEYS[3]  saved    string; what this member has saved, see adder_save.lua
-- KEYS[4]  counter  string; what was answered so far
-- ARGV[1]  command  that adds; empty for a reset
-- ARGV[2]  ours     `1`: the round is over once `round` has gone
-- ARGV[3]  lifetime of a round, in milliseconds
-- ARGV[4]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- Returns  {saves, saved}  since so many saves nothing is in the total that was added; `number sum` of what this member had saved to it
--          {}              the round is over, and nothing was done
--          {-1, time}      it is too late, and nothing was done; and the server's time, in microseconds
--
-- Work: O(1), writes at most three keys. Sent twice, it does the same as once. What may be refused is done first, and is put back
-- where what comes behind it is.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
if tonumber(now) > tonumber(ARGV[4]) then
  return {-1, now}
end
local round = redis.call('GET', KEYS[1])
if not round and ARGV[2] == '1' then
  return {}
end
local saved, of = string.match(redis.call('GET', KEYS[3]) or '', '^(%S+ %S+) %S+ (%S+)$')
if not saved or of ~= redis.call('HGET', KEYS[2], 'born') then
  saved = ''
end
if round and round ~= '-' then
  return {string.match(round, '^%d+'), saved}
end
local sum = redis.call('HGET', KEYS[2], 'sum')
local saves = redis.call('HGET', KEYS[2], 'saves') or '0'
local resets = sum and ARGV[1] == ''
if resets then
  saves = string.format('%.0f', saves + 1)
end
redis.call('SET', KEYS[1], saves, 'PX', ARGV[3])
local done = resets and redis.pcall('HSET', KEYS[2], 'saves', saves, 'sum', '0')
  or sum and redis.pcall(ARGV[1], KEYS[4], sum)
if type(done) == 'table' and done.err then
  local overflows = not resets and ARGV[2] == '1' and string.find(done.err, 'would', 1, true)
  redis.call('SET', KEYS[1], overflows and saves .. '!' or '-', 'PX', ARGV[3])
  return overflows and {saves, saved} or done
end
if sum and not resets and redis.call('PTTL', KEYS[4]) < 0 then
  redis.call('PEXPIRE', KEYS[4], ARGV[3])
end
return {saves, saved}
