-- adder_enter.lua: take part in a round of an adder. The first of ours adds the saved total, or sets it to 0; all others count from there.
--
-- KEYS[1]  round    string; `-`, then how often the total had been saved to when it was added; a `!` behind that tells of an overflow
-- KEYS[2]  total    hash; `sum`, how many `saves` it has, and when it was `born`
-- KEYS[3]  saved    string; what this member has saved
-- KEYS[4]  counter  string; what was answered so far
-- ARGV[1]  command  that adds; empty for a reset
-- ARGV[2]  ours     `1`: the round is over once `round` has gone
-- ARGV[3]  lifetime of a round, in milliseconds
-- ARGV[4]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- Returns  {saves, saved}  since so many saves nothing is in the total that was added; what this member had saved
--          {}              the round is over, or it is too late, and nothing was done
--
-- Work: O(1), writes at most three keys. Sent twice, it does the same as once.
local clock = redis.call('TIME')
if clock[1] * 1000000 + clock[2] > tonumber(ARGV[4]) then
  return {}
end
local round = redis.call('GET', KEYS[1])
if not round and ARGV[2] == '1' then
  return {}
end
local saved = redis.call('GET', KEYS[3]) or ''
if round and round ~= '-' then
  return {string.match(round, '^%d+'), saved}
end
local sum = redis.call('HGET', KEYS[2], 'sum')
local saves = redis.call('HGET', KEYS[2], 'saves') or '0'
if sum and ARGV[1] ~= '' then
  local added = redis.pcall(ARGV[1], KEYS[4], sum)
  if type(added) == 'table' and added.err then
    if ARGV[2] ~= '1' or not string.find(added.err, 'would', 1, true) then
      return added
    end
    redis.call('SET', KEYS[1], saves .. '!', 'PX', ARGV[3])
    return {saves, saved}
  end
  if redis.call('PTTL', KEYS[4]) < 0 then
    redis.call('PEXPIRE', KEYS[4], ARGV[3])
  end
elseif sum then
  saves = tostring(redis.call('HINCRBY', KEYS[2], 'saves', 1))
  redis.call('HSET', KEYS[2], 'sum', '0')
end
redis.call('SET', KEYS[1], saves, 'PX', ARGV[3])
return {saves, saved}
