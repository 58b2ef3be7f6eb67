-- adder_enter.lua: enter a round of an adder. The first member of redgrid adds the saved total to
-- the round; in a reset, it sets the total to 0. Each member of redgrid excludes its own part of
-- the total from its answer.
--
-- KEYS[1]  round      string; `-` at first; then the number of saves to the total when the total
--                     was added; a `!` behind that number marks an overflow
-- KEYS[2]  total      hash; `sum`, the number of `saves`, and when it was `born`
-- KEYS[3]  saved      string; the last save of this member, see adder_save.lua
-- KEYS[4]  counter    string; the sum of the answers
-- ARGV[1]  command    that adds; empty for a reset
-- ARGV[2]  redgrid    `1`: a round of redgrid, which is over once `round` is gone
-- ARGV[3]  lifetime   of a round, in milliseconds
-- ARGV[4]  not after  microseconds since 1970 by this server's clock; later than that, nothing is
--                     done
-- Returns  {saves, saved}  the round includes the total after this number of saves; `sequence sum`
--                          of this member's last save to it
--          {}              the round is over, and nothing was done
--          {-1, time}      too late: nothing was done; and the server's time, in microseconds
--
-- Work: O(1), writes at most three keys. Sent twice, it has the same effect. A write that the
-- server may refuse comes first, and is undone if a later one is refused.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
if tonumber(now) > tonumber(ARGV[4]) then
  return {-1, now}
end
local round = redis.call('GET', KEYS[1])
if not round and ARGV[2] == '1' then
  return {}
end
local saved, total_born = string.match(redis.call('GET', KEYS[3]) or '', '^(%S+ %S+) %S+ (%S+)$')
if not saved or total_born ~= redis.call('HGET', KEYS[2], 'born') then
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
local reply = resets and redis.pcall('HSET', KEYS[2], 'saves', saves, 'sum', '0')
  or sum and redis.pcall(ARGV[1], KEYS[4], sum)
if type(reply) == 'table' and reply.err then
  local overflows = not resets and ARGV[2] == '1' and string.find(reply.err, 'would', 1, true)
  redis.call('SET', KEYS[1], overflows and saves .. '!' or '-', 'PX', ARGV[3])
  return overflows and {saves, saved} or reply
end
if sum and not resets and redis.call('PTTL', KEYS[4]) < 0 then
  redis.call('PEXPIRE', KEYS[4], ARGV[3])
end
return {saves, saved}
