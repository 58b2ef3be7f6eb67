-- give.lua: give new entries to a consumer of a group.
--
-- KEYS[1]  stream
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2…] what XREADGROUP takes behind GROUP and in front of STREAMS
-- Returns  what XREADGROUP tells
--          {-1, time}  it is too late, and nothing was done; and the server's time, in microseconds
--
-- Work: O(entries given), which ARGV has. Sent twice, it gives twice: a copy that nobody waits for any more is to give nothing.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
if tonumber(now) > tonumber(ARGV[1]) then
  return {-1, now}
end
local given = {'GROUP', unpack(ARGV, 2)}
given[#given + 1] = 'STREAMS'
given[#given + 1] = KEYS[1]
given[#given + 1] = '>'
return redis.pcall('XREADGROUP', unpack(given))
