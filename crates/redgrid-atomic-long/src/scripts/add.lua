-- add.lua: add to a number, within bounds. Behind once.lua or plain.lua, and integers.lua or doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4]  by        what is added
-- ARGV[5]  least, [6] most   what it may be then; empty for no bound
-- ARGV[7]  clamp     `1`: what is beyond a bound becomes the bound; else nothing is done
-- ARGV[8]  lifetime  from now on, in milliseconds; empty leaves it as it is, 0 ends it
-- ARGV[9]  if none   `1`: a lifetime that there is stays
-- Returns  {status, now}   `1` added, `2` clamped, `0` out of bounds and nothing done; the number as it is now, in decimal
--
-- Work: O(1), writes one key. A sum beyond all numbers is refused, and nothing is done, unless it is clamped.
local was = redis.call('GET', KEYS[2])
local status, now = '1', increased(ARGV[4])
local function put(number)
  if number then
    redis.call('SET', KEYS[2], number, 'KEEPTTL')
  else
    redis.call('DEL', KEYS[2])
  end
end
if type(now) == 'table' then
  local bound = string.sub(ARGV[4], 1, 1) == '-' and ARGV[5] or ARGV[6]
  if ARGV[7] ~= '1' or bound == '' or not string.find(now.err, 'would overflow', 1, true) then
    return now
  end
  put(bound)
  status, now = '2', bound
else
  local beyond = ARGV[5] ~= '' and less(now, ARGV[5]) and ARGV[5] or ARGV[6] ~= '' and less(ARGV[6], now) and ARGV[6]
  if beyond and ARGV[7] == '1' then
    put(beyond)
    status, now = '2', beyond
  elseif beyond then
    put(was)
    return answer({'0', was or '0'})
  end
end
if ARGV[8] == '0' then
  redis.call('PERSIST', KEYS[2])
elseif ARGV[8] ~= '' and (ARGV[9] ~= '1' or redis.call('PTTL', KEYS[2]) < 0) then
  redis.call('PEXPIRE', KEYS[2], ARGV[8])
end
return answer({status, now})
