-- add.lua: add to a number, within bounds. Behind dedup.lua or plain.lua, and integers.lua or
-- doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4]  by        the summand
-- ARGV[5]  min, [6] max   the bounds of the sum; empty for none
-- ARGV[7]  saturate  `1`: a sum beyond a bound becomes the bound; otherwise nothing is done
-- ARGV[8]  lifetime  from now on, in milliseconds; empty keeps it as it is, 0 removes it
-- ARGV[9]  if none   `1`: an existing lifetime is kept
-- Returns  {status, number}   `1` added, `2` saturated, `0` out of bounds and nothing done; the
--                             number afterwards, in decimal
--
-- Work: O(1), writes one key. A sum out of the range of the type is refused, and nothing is done,
-- unless it saturates.
local previous = redis.call('GET', KEYS[2])
local status, sum = '1', add(ARGV[4])
local function put(number)
  if number then
    redis.call('SET', KEYS[2], number, 'KEEPTTL')
  else
    redis.call('DEL', KEYS[2])
  end
end
if type(sum) == 'table' then
  local bound = string.sub(ARGV[4], 1, 1) == '-' and ARGV[5] or ARGV[6]
  if ARGV[7] ~= '1' or bound == '' or not string.find(sum.err, 'would overflow', 1, true) then
    return sum
  end
  put(bound)
  status, sum = '2', bound
else
  local exceeded = ARGV[5] ~= '' and less(sum, ARGV[5]) and ARGV[5] or ARGV[6] ~= '' and less(ARGV[6], sum) and ARGV[6]
  if exceeded and ARGV[7] == '1' then
    put(exceeded)
    status, sum = '2', exceeded
  elseif exceeded then
    put(previous)
    return answer({'0', previous or '0'})
  end
end
if ARGV[8] == '0' then
  redis.call('PERSIST', KEYS[2])
elseif ARGV[8] ~= '' and (ARGV[9] ~= '1' or redis.call('PTTL', KEYS[2]) < 0) then
  redis.call('PEXPIRE', KEYS[2], ARGV[8])
end
return answer({status, sum})
