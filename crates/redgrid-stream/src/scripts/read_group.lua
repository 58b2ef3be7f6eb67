-- read_group.lua: delivers new entries to a consumer of a group.
--
-- KEYS[1]  stream
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later, nothing is done
-- ARGV[2…] the arguments of XREADGROUP between GROUP and STREAMS
-- Returns  the reply of XREADGROUP
--          {-1, time}  too late: nothing was done; and the server's time, in microseconds
--
-- Work: O(delivered entries), limited by the arguments. Sent twice, it delivers twice. A copy that
-- arrives after the caller has stopped waiting must not deliver entries, hence the time limit.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
if tonumber(now) > tonumber(ARGV[1]) then
  return {-1, now}
end
local args = {'GROUP', unpack(ARGV, 2)}
args[#args + 1] = 'STREAMS'
args[#args + 1] = KEYS[1]
args[#args + 1] = '>'
return redis.pcall('XREADGROUP', unpack(args))
